// A stand-in for the functions of CUDA's libraries that candle and ebm-ops call, which runs kernels on the CPU: the sources of the
// kernels are compiled as C++ and linked in. It checks the kernels' arithmetic and indices and the code that launches them, where
// there is no GPU; it says nothing about speed, races between threads, or NVIDIA's own libraries.
//
// Every block of memory ends at a page that cannot be touched, is filled with NaN, and is unmapped when freed: reading or writing
// beyond it ends the process.
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernel.h"

thread_local Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

struct Module {
  std::vector<Entry> entries;
  bool barriers;
};

struct Function {
  const char *name;
  void (*call)(void **);
  bool barriers;
};

// With CUDA_ON_CPU_COUNTS a process says at its end how often it launched each kernel, called the libraries and moved memory.
struct Counts {
  std::map<std::string, long> of;
  bool wanted = std::getenv("CUDA_ON_CPU_COUNTS");
  ~Counts() {
    for (auto &[name, count] : of) std::fprintf(stderr, "%9ld %s\n", count, name.c_str());
  }
} counts;
void count(const char *name) {
  if (counts.wanted) ++counts.of[name];
}

std::vector<Module> &modules() {
  static std::vector<Module> all;
  return all;
}

// The threads of a block that has barriers.
struct Fibers {
  static const int COUNT = 1024, STACK = 1 << 16;
  ucontext_t scheduler;
  std::vector<ucontext_t> contexts = std::vector<ucontext_t>(COUNT);
  std::vector<bool> done = std::vector<bool>(COUNT);
  std::vector<std::vector<char>> slots = std::vector<std::vector<char>>(COUNT);
  char *stacks = static_cast<char *>(
      mmap(nullptr, (size_t)COUNT * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  int current = -1;
  void (*call)(void **);
  void **parameters;
};
thread_local Fibers *fibers = nullptr;

void fiber_main() {
  fibers->call(fibers->parameters);
  fibers->done[fibers->current] = true;
  swapcontext(&fibers->contexts[fibers->current], &fibers->scheduler);
}

// Every fiber runs to its next barrier, in turn, until all are done.
void run_fibers(void (*call)(void **), void **parameters, unsigned count) {
  static thread_local Fibers own;
  fibers = &own;
  own.call = call;
  own.parameters = parameters;
  for (unsigned i = 0; i < count; ++i) {
    own.done[i] = false;
    getcontext(&own.contexts[i]);
    own.contexts[i].uc_stack.ss_sp = own.stacks + (size_t)i * Fibers::STACK;
    own.contexts[i].uc_stack.ss_size = Fibers::STACK;
    own.contexts[i].uc_link = nullptr;
    makecontext(&own.contexts[i], fiber_main, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (unsigned i = 0; i < count; ++i) {
      if (own.done[i]) continue;
      any = true;
      own.current = i;
      threadIdx = {i % blockDim.x, i / blockDim.x, 0};
      swapcontext(&own.scheduler, &own.contexts[i]);
    }
  }
  fibers = nullptr;
}

std::mutex blocks_lock;
std::unordered_map<unsigned long long, std::pair<char *, size_t>> blocks;

unsigned long long allocate(size_t bytes) {
  size_t page = sysconf(_SC_PAGESIZE), rounded = (bytes + 7) / 8 * 8, inner = (rounded + page - 1) / page * page;
  inner = std::max(inner, page);
  char *start = static_cast<char *>(
      mmap(nullptr, inner + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (start == MAP_FAILED) return 0;
  mprotect(start + inner, page, PROT_NONE);
  char *data = start + inner - rounded;
  std::memset(data, 0xff, rounded);
  std::lock_guard<std::mutex> guard(blocks_lock);
  blocks[(unsigned long long)data] = {start, inner + page};
  return (unsigned long long)data;
}

int release(unsigned long long data) {
  std::lock_guard<std::mutex> guard(blocks_lock);
  auto found = blocks.find(data);
  if (found == blocks.end()) return 1;
  munmap(found->second.first, found->second.second);
  blocks.erase(found);
  return 0;
}

char handle;  // What all handles point to.

}  // namespace

void add_module(const Entry *entries, int count, bool barriers) {
  modules().push_back({std::vector<Entry>(entries, entries + count), barriers});
}

void __syncthreads() {
  int self = fibers->current;
  swapcontext(&fibers->contexts[self], &fibers->scheduler);
}

const void *exchange(const void *value, unsigned bytes, int mask) {
  int self = fibers->current;
  fibers->slots[self].assign((const char *)value, (const char *)value + bytes);
  __syncthreads();
  // A copy of its own: the other lane may write its slot again before this one reads.
  static thread_local std::vector<std::vector<char>> copies(Fibers::COUNT);
  copies[self] = fibers->slots[self ^ mask];
  __syncthreads();
  return copies[self].data();
}

extern "C" {
typedef unsigned long long Pointer;

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number == 0 ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int) { snprintf(name, length, "kernels on the CPU (a stand-in)"); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int) { *bytes = 1ull << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
  switch (attribute) {
    case 1: *value = 1024; break;   // Threads of a block.
    case 10: *value = 32; break;    // Threads of a warp.
    case 16: *value = 1; break;     // Multiprocessors.
    case 75: *value = 8; break;     // Compute capability.
    case 115: *value = 1; break;    // Memory pools.
    default: *value = 0;
  }
  return 0;
}
int cuDeviceGetDefaultMemPool(void **pool, int) { *pool = &handle; return 0; }
int cuMemPoolSetAttribute(void *, int, void *) { return 0; }
int cuDevicePrimaryCtxRetain(void **context, int) { *context = &handle; return 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxGetCurrent(void **context) { *context = &handle; return 0; }
int cuCtxSetCurrent(void *) { return 0; }
int cuCtxSynchronize() { return 0; }
int cuGetErrorString(int, const char **text) { *text = "an error of the stand-in"; return 0; }

int cuStreamCreate(void **stream, unsigned) { *stream = &handle; return 0; }
int cuStreamSynchronize(void *) { return 0; }
int cuStreamDestroy_v2(void *) { return 0; }
int cuStreamWaitEvent(void *, void *, unsigned) { return 0; }
int cuStreamIsCapturing(void *, int *status) { *status = 0; return 0; }
int cuEventCreate(void **event, unsigned) { *event = &handle; return 0; }
int cuEventDestroy_v2(void *) { return 0; }
int cuEventRecord(void *, void *) { return 0; }
int cuEventSynchronize(void *) { return 0; }
int cuEventElapsedTime_v2(float *ms, void *, void *) { *ms = 0; return 0; }

int cuMemAllocAsync(Pointer *to, size_t bytes, void *) { *to = allocate(bytes); return *to ? 0 : 2; }
int cuMemAlloc_v2(Pointer *to, size_t bytes) { return cuMemAllocAsync(to, bytes, nullptr); }
int cuMemFreeAsync(Pointer at, void *) { return release(at); }
int cuMemFree_v2(Pointer at) { return release(at); }
int cuMemHostAlloc(void **to, size_t bytes, unsigned) { *to = malloc(bytes); return 0; }
int cuMemFreeHost(void *at) { free(at); return 0; }
int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, void *) {
  count("copy to the device");
  memcpy((void *)to, from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, void *) {
  count("copy from the device");
  memcpy(to, (void *)from, bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void *) { memmove((void *)to, (void *)from, bytes); return 0; }
int cuMemsetD8Async(Pointer at, unsigned char value, size_t bytes, void *) { memset((void *)at, value, bytes); return 0; }

// The source whose kernels the PTX has most of.
int cuModuleLoadData(void **module, const void *image) {
  std::set<std::string> names;
  const std::string text = static_cast<const char *>(image), mark = ".entry ";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    size_t start = at + mark.size();
    names.insert(text.substr(start, text.find_first_of("( \n", start) - start));
  }
  Module *best = nullptr;
  size_t most = 0;
  for (Module &candidate : modules()) {
    size_t shared = std::count_if(candidate.entries.begin(), candidate.entries.end(),
                                  [&](const Entry &entry) { return names.count(entry.name); });
    if (shared > most) best = &candidate, most = shared;
  }
  *module = best;
  return best ? 0 : 209;
}
int cuModuleUnload(void *) { return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  Module *from = static_cast<Module *>(module);
  for (const Entry &entry : from->entries)
    if (!strcmp(entry.name, name)) {
      *function = new Function{entry.name, entry.call, from->barriers};
      return 0;
    }
  fprintf(stderr, "cuda_on_cpu: there is no kernel %s\n", name);
  return 500;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned,
                   void *, void **parameters, void **) {
  Function *kernel = static_cast<Function *>(function);
  count(kernel->name);
  if (bz != 1 || bx * by > 1024 || !gx || !gy || !gz || !bx || !by) return 1;
  gridDim = {gx, gy, gz};
  blockDim = {bx, by, bz};
  for (unsigned z = 0; z < gz; ++z)
    for (unsigned y = 0; y < gy; ++y)
      for (unsigned x = 0; x < gx; ++x) {
        blockIdx = {x, y, z};
        if (kernel->barriers) {
          run_fibers(kernel->call, parameters, bx * by);
          continue;
        }
        for (unsigned i = 0; i < bx * by; ++i) {
          threadIdx = {i % bx, i / bx, 0};
          kernel->call(parameters);
        }
      }
  return 0;
}

int curandCreateGenerator(void **generator, int) { *generator = &handle; return 0; }
int curandDestroyGenerator(void *) { return 0; }
int curandSetPseudoRandomGeneratorSeed(void *, unsigned long long) { return 0; }
int curandSetStream(void *, void *) { return 0; }

int cublasCreate_v2(void **blas) { *blas = &handle; return 0; }
int cublasDestroy_v2(void *) { return 0; }
int cublasSetStream_v2(void *, void *) { return 0; }
}

// bfloat16 is the upper half of an f32; products and sums of it are f32.
static float wide(uint16_t bits) { return as_bits<float>((uint32_t)bits << 16); }
static uint16_t narrow(float value) {
  uint32_t all = as_bits<uint32_t>(value);
  return value != value ? all >> 16 | 0x40 : (all + 0x7fff + (all >> 16 & 1)) >> 16;
}
static std::vector<float> widened(const void *from, size_t count) {
  std::vector<float> to(count);
  for (size_t i = 0; i < count; ++i) to[i] = wide(((const uint16_t *)from)[i]);
  return to;
}

// Columns first: c (m, n) = alpha · a (m, k) · b (k, n) + beta · c. S is the type that is computed with.
template <typename S, typename T, typename Read, typename Write>
static int gemm(int ta, int tb, int m, int n, int k, S alpha, const T *a, int lda, long long sa, const T *b, int ldb, long long sb,
                S beta, T *c, int ldc, long long sc, int batch, Read read, Write write) {
  std::vector<S> rows((size_t)m * k), columns((size_t)n * k);
  for (int at = 0; at < batch; ++at, a += sa, b += sb, c += sc) {
    for (int i = 0; i < m; ++i)
      for (int l = 0; l < k; ++l) rows[(size_t)i * k + l] = read(a[ta ? l + (long long)i * lda : i + (long long)l * lda]);
    for (int j = 0; j < n; ++j)
      for (int l = 0; l < k; ++l) columns[(size_t)j * k + l] = read(b[tb ? j + (long long)l * ldb : l + (long long)j * ldb]);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) {
        const S *row = &rows[(size_t)i * k], *column = &columns[(size_t)j * k];
        S sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int l = 0; l < k; ++l) sum += row[l] * column[l];
        T &to = c[i + (long long)j * ldc];
        to = write(alpha * sum + (beta == 0 ? 0 : beta * read(to)));
      }
  }
  return 0;
}
template <typename T> static T same(T value) { return value; }

extern "C" {
int cublasDgemmStridedBatched(void *, int ta, int tb, int m, int n, int k, const double *alpha, const double *a, int lda,
                              long long sa, const double *b, int ldb, long long sb, const double *beta, double *c, int ldc,
                              long long sc, int batch) {
  return gemm(ta, tb, m, n, k, *alpha, a, lda, sa, b, ldb, sb, *beta, c, ldc, sc, batch, same<double>, same<double>);
}
int cublasGemmStridedBatchedEx(void *, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int type, int lda,
                               long long sa, const void *b, int, int ldb, long long sb, const void *beta, void *c, int, int ldc,
                               long long sc, int batch, int, int) {
  count("cuBLAS");
  float scale = *(const float *)alpha, keep = *(const float *)beta;
  if (type == 14)  // bfloat16
    return gemm(ta, tb, m, n, k, scale, (const uint16_t *)a, lda, sa, (const uint16_t *)b, ldb, sb, keep, (uint16_t *)c, ldc, sc, batch,
                wide, narrow);
  if (type != 0) return 15;
  return gemm(ta, tb, m, n, k, scale, (const float *)a, lda, sa, (const float *)b, ldb, sb, keep, (float *)c, ldc, sc, batch, same<float>,
              same<float>);
}
}

// cuDNN: convolutions of maps in the order (N, H, W, C), whose filters are (O, kh, kw, C).
namespace {
struct Description {
  int type = 0, dims[4] = {}, padding[2] = {}, stride[2] = {}, dilation[2] = {};
};

enum Wanted { Y, DX, DW };

size_t total(const Description &d) { return (size_t)d.dims[0] * d.dims[1] * d.dims[2] * d.dims[3]; }

template <typename T>
int convolve(Wanted wanted, const Description &x, const Description &w, const Description &y, const Description &conv, T *px, T *pw,
             T *py) {
  T *out = wanted == Y ? py : wanted == DX ? px : pw;
  std::fill(out, out + total(wanted == Y ? y : wanted == DX ? x : w), T(0));
  int channels = x.dims[1], filters = y.dims[1];
  for (int n = 0; n < y.dims[0]; ++n)
    for (int i = 0; i < y.dims[2]; ++i)
      for (int j = 0; j < y.dims[3]; ++j)
        for (int u = 0; u < w.dims[2]; ++u)
          for (int v = 0; v < w.dims[3]; ++v) {
            int row = i * conv.stride[0] + u - conv.padding[0], column = j * conv.stride[1] + v - conv.padding[1];
            if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3]) continue;
            T *from = &px[((size_t)(n * x.dims[2] + row) * x.dims[3] + column) * channels];
            T *to = &py[((size_t)(n * y.dims[2] + i) * y.dims[3] + j) * filters];
            for (int o = 0; o < filters; ++o) {
              T *weights = &pw[((size_t)(o * w.dims[2] + u) * w.dims[3] + v) * channels], sum = 0, grad = to[o];
              if (wanted == Y)
                for (int c = 0; c < channels; ++c) sum += weights[c] * from[c];
              else if (wanted == DX)
                for (int c = 0; c < channels; ++c) from[c] += weights[c] * grad;
              else
                for (int c = 0; c < channels; ++c) weights[c] += from[c] * grad;
              if (wanted == Y) to[o] += sum;
            }
          }
  return 0;
}

// The types of data are f32 (0) and bfloat16 (9), whose sums are f32: cuDNN 9 has no gradients of f64 in this order.
int convolve_any(Wanted wanted, void *x, const void *px, void *w, const void *pw, void *y, const void *py, void *conv) {
  count("cuDNN");
  Description &dx = *(Description *)x, &dw = *(Description *)w, &dy = *(Description *)y, &dc = *(Description *)conv;
  if (dx.type != dw.type || dx.type != dy.type || dc.type != 0) return 3000;
  if (dx.type == 0) return convolve(wanted, dx, dw, dy, dc, (float *)px, (float *)pw, (float *)py);
  if (dx.type != 9) return 3000;
  std::vector<float> all[] = {widened(px, total(dx)), widened(pw, total(dw)), widened(py, total(dy))};
  convolve(wanted, dx, dw, dy, dc, all[0].data(), all[1].data(), all[2].data());
  const std::vector<float> &result = all[wanted == Y ? 2 : wanted == DX ? 0 : 1];
  const void *out = wanted == Y ? py : wanted == DX ? px : pw;
  std::transform(result.begin(), result.end(), (uint16_t *)out, narrow);
  return 0;
}

struct Performance {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
};

int pick(int algorithm, int *count, Performance *found) {
  *count = 1;
  *found = {};
  found->algorithm = algorithm;
  return 0;
}
}  // namespace

extern "C" {
int cudnnCreate(void **dnn) { *dnn = &handle; return 0; }
int cudnnDestroy(void *) { return 0; }
int cudnnSetStream(void *, void *) { return 0; }
int cudnnCreateTensorDescriptor(void **d) { *d = new Description; return 0; }
int cudnnCreateFilterDescriptor(void **d) { *d = new Description; return 0; }
int cudnnCreateConvolutionDescriptor(void **d) { *d = new Description; return 0; }
int cudnnDestroyTensorDescriptor(void *d) { delete (Description *)d; return 0; }
int cudnnDestroyFilterDescriptor(void *d) { delete (Description *)d; return 0; }
int cudnnDestroyConvolutionDescriptor(void *d) { delete (Description *)d; return 0; }
int cudnnSetTensor4dDescriptor(void *d, int format, int type, int n, int c, int h, int w) {
  *(Description *)d = {type, {n, c, h, w}};
  return format == 1 ? 0 : 3000;
}
int cudnnSetFilter4dDescriptor(void *d, int type, int format, int o, int c, int h, int w) {
  *(Description *)d = {type, {o, c, h, w}};
  return format == 1 ? 0 : 3000;
}
int cudnnSetConvolution2dDescriptor(void *d, int ph, int pw, int sh, int sw, int dh, int dw, int mode, int type) {
  *(Description *)d = {type, {}, {ph, pw}, {sh, sw}, {dh, dw}};
  return mode == 1 && dh == 1 && dw == 1 ? 0 : 3000;
}
int cudnnSetConvolutionMathType(void *, int) { return 0; }
int cudnnGetConvolutionForwardAlgorithm_v7(void *, void *, void *, void *, void *, int, int *count, Performance *found) {
  return pick(1, count, found);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *, void *, void *, void *, void *, int, int *count, Performance *found) {
  return pick(0, count, found);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, void *, void *, void *, void *, int, int *count, Performance *found) {
  return pick(0, count, found);
}
int cudnnGetConvolutionForwardWorkspaceSize(void *, void *, void *, void *, void *, int, size_t *bytes) { *bytes = 16; return 0; }
int cudnnGetConvolutionBackwardDataWorkspaceSize(void *, void *, void *, void *, void *, int, size_t *bytes) { *bytes = 0; return 0; }
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *, void *, void *, void *, void *, int, size_t *bytes) { *bytes = 8; return 0; }
int cudnnConvolutionForward(void *, const void *, void *x, const void *px, void *w, const void *pw, void *conv, int, void *, size_t,
                            const void *, void *y, void *py) {
  return convolve_any(Y, x, px, w, pw, y, py, conv);
}
// Of both gradients, algorithm 1 is the one whose sums have one order.
int cudnnConvolutionBackwardData(void *, const void *, void *w, const void *pw, void *y, const void *py, void *conv, int algorithm,
                                 void *, size_t, const void *, void *x, void *px) {
  return algorithm == 1 ? convolve_any(DX, x, px, w, pw, y, py, conv) : 3000;
}
int cudnnConvolutionBackwardFilter(void *, const void *, void *x, const void *px, void *y, const void *py, void *conv, int algorithm,
                                   void *, size_t, const void *, void *w, void *pw) {
  return algorithm == 1 ? convolve_any(DW, x, px, w, pw, y, py, conv) : 3000;
}
}
