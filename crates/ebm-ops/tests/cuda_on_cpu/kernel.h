// Included ahead of a kernel's source: what nvcc knows and a C++ compiler does not. A block's threads run one after another, or as
// fibers of one thread of the system where the source has barriers; so `__shared__` is `thread_local`.
#pragma once
#include <crt/host_defines.h>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector_types.h>

#undef __device__
#undef __forceinline__
#undef __shared__
#undef __global__
#define __device__
#define __forceinline__ inline
#define __shared__ thread_local
#define __global__

struct Index {
  unsigned x, y, z;
};
extern thread_local Index threadIdx, blockIdx, blockDim, gridDim;

using std::isnan;
using std::signbit;

// Barriers and exchanges of a block; `exchange` gives the number of the lane whose number differs by `mask`.
void __syncthreads();
const void *exchange(const void *value, unsigned bytes, int mask);
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask, int = 32) {
  T found;
  std::memcpy(&found, exchange(&value, sizeof value, mask), sizeof found);
  return found;
}
inline void __syncwarp() {}

// Blocks and threads run in one order, so that nothing is atomic.
template <typename T, typename U>
T atomicAdd(T *to, U value) { T old = *to; *to = old + (T)value; return old; }
template <typename T, typename U, typename V>
T atomicCAS(T *to, U expected, V value) { T old = *to; if (old == (T)expected) *to = (T)value; return old; }
template <typename T, typename U>
T atomicMax(T *to, U value) { T old = *to; if ((T)value > old) *to = (T)value; return old; }
template <typename T, typename U>
T atomicMin(T *to, U value) { T old = *to; if ((T)value < old) *to = (T)value; return old; }

template <typename To, typename From>
To as_bits(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline long long __double_as_longlong(double v) { return as_bits<long long>(v); }
inline double __longlong_as_double(long long v) { return as_bits<double>(v); }
inline float __uint_as_float(unsigned v) { return as_bits<float>(v); }
inline unsigned __float_as_uint(float v) { return as_bits<unsigned>(v); }
inline float __int_as_float(int v) { return as_bits<float>(v); }
inline int __float_as_int(float v) { return as_bits<int>(v); }
template <typename A, typename B>
auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
template <typename A, typename B>
auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }
inline double normcdf(double x) { return 0.5 * std::erfc(-x * 0.7071067811865475); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// What the toolkit's 16-bit types lack outside of a GPU.
template <typename T> T hsqrt(T x) { return T(std::sqrt((float)x)); }
template <typename T> T hsin(T x) { return T(std::sin((float)x)); }
template <typename T> T hcos(T x) { return T(std::cos((float)x)); }
template <typename T> T hexp(T x) { return T(std::exp((float)x)); }
template <typename T> T hlog(T x) { return T(std::log((float)x)); }

// Calls a kernel with parameters that are given by their addresses.
template <typename... A, std::size_t... I>
void call_with(void (*kernel)(A...), void **parameters, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_const_t<A> *>(parameters[I])...);
}

struct Entry {
  const char *name;
  void (*call)(void **);
};
// A source's kernels; `barriers` says whether they may have any.
void add_module(const Entry *entries, int count, bool barriers);

template <typename... A>
constexpr auto indices(void (*)(A...)) { return std::index_sequence_for<A...>{}; }
#define ENTRY(kernel) Entry{#kernel, [](void **p) { call_with(kernel, p, indices(kernel)); }}
