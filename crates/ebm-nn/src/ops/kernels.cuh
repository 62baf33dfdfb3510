// What the kernels share. No header of CUDA is included, so that any C++ compiler takes these files (`tests/cuda/`).
//
// Each kernel's first parameter is the number of its threads that have work; it is defined for f32 and f64 under the names
// NAME_f32 and NAME_f64. Sums have one order: there are no atomic additions.
#pragma once

typedef unsigned int u32;
typedef long long i64;

// The number of this thread, and whether it has work.
#define FOR_EACH(index, count)                                                                     \
  for (u32 index = blockIdx.x * blockDim.x + threadIdx.x; index < (count); index += blockDim.x * gridDim.x)

template <typename T> __device__ __forceinline__ T least(T a, T b) { return a < b ? a : b; }
template <typename T> __device__ __forceinline__ T most(T a, T b) { return a > b ? a : b; }

// Defines NAME_f32 and NAME_f64, which call the template BODY<T> with these parameters.
#define KERNEL(name, body, parameters_f32, parameters_f64, arguments)                              \
  extern "C" __global__ void name##_f32 parameters_f32 { body<float> arguments; }                  \
  extern "C" __global__ void name##_f64 parameters_f64 { body<double> arguments; }
