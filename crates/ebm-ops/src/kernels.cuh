// Code that the kernels share. No header of CUDA is included, so that any C++ compiler takes these files
// (`tests/cuda_on_cpu/`).
//
// Each kernel's first parameter is the number of its threads that have work. A kernel is defined for f32 and f64, and some
// for bfloat16, under the names NAME_f32, NAME_f64 and NAME_bf16. Sums have one order: there are no atomic additions.
#pragma once

typedef unsigned int u32;
typedef long long i64;

// Loops over the indices of this thread below `count`.
#define FOR_EACH(index, count)                                                                     \
  for (u32 index = blockIdx.x * blockDim.x + threadIdx.x; index < (count); index += blockDim.x * gridDim.x)

template <typename T> __device__ __forceinline__ T least(T a, T b) { return a < b ? a : b; }
template <typename T> __device__ __forceinline__ T most(T a, T b) { return a > b ? a : b; }

// bfloat16, the upper half of an f32. Numbers are only stored in this type, and computed with as f32.
struct bf16 {
  unsigned short bits;
  bf16() = default;
  __device__ __forceinline__ bf16(float value) {
    u32 all = __float_as_uint(value);
    // Rounds to the nearest, ties to even. NaN stays NaN.
    bits = value != value ? all >> 16 | 0x40 : (all + 0x7fff + (all >> 16 & 1)) >> 16;
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float((u32)bits << 16); }
};

// Type that the kernels compute with for elements of type T.
template <typename T> struct Wide { typedef T type; };
template <> struct Wide<bf16> { typedef float type; };

// Four numbers side by side that are read or written at once.
template <typename T> struct alignas(4 * sizeof(T)) Four { T of[4]; };

template <typename T> __device__ __forceinline__ Four<T> four_at(const T *from, i64 i) { return *reinterpret_cast<const Four<T> *>(from + i); }
template <typename T> __device__ __forceinline__ void put_four(T *to, i64 i, const Four<T> &four) { *reinterpret_cast<Four<T> *>(to + i) = four; }

// Returns true if rows of `len` numbers from here on can be read four at a time.
template <typename T> __device__ __forceinline__ bool is_by_fours(const T *from, i64 len) {
  return reinterpret_cast<unsigned long long>(from) % sizeof(Four<T>) == 0 && len % 4 == 0;
}

// Defines NAME_f32 and NAME_f64, which call the template BODY<T> with these parameters.
#define KERNEL(name, body, parameters_f32, parameters_f64, arguments)                              \
  extern "C" __global__ void name##_f32 parameters_f32 { body<float> arguments; }                  \
  extern "C" __global__ void name##_f64 parameters_f64 { body<double> arguments; }

// Defines NAME_bf16 in the same way.
#define KERNEL_BF16(name, body, parameters, arguments)                                             \
  extern "C" __global__ void name##_bf16 parameters { body<bf16> arguments; }
