// ReLU, alone and after a sum, and the gradient of both.
#include "../kernels.cuh"

// NaN stays NaN.
template <typename T>
__device__ __forceinline__ T positive(T x) { return x < (T)0 ? (T)0 : x; }

template <typename T>
__device__ void rectify(u32 count, const T *x, T *y) {
  FOR_EACH(i, count) y[i] = positive(x[i]);
}

template <typename T>
__device__ void add_rectify(u32 count, const T *a, const T *b, T *y) {
  FOR_EACH(i, count) y[i] = positive<typename Wide<T>::type>(a[i] + b[i]);
}

// The gradient where the result was positive, else 0.
template <typename T>
__device__ void mask(u32 count, const T *g, const T *y, T *d) {
  FOR_EACH(i, count) d[i] = y[i] > (T)0 ? g[i] : (T)0;
}

KERNEL(relu, rectify, (u32 count, const float *x, float *y), (u32 count, const double *x, double *y), (count, x, y))
KERNEL(add_relu, add_rectify, (u32 count, const float *a, const float *b, float *y),
       (u32 count, const double *a, const double *b, double *y), (count, a, b, y))
KERNEL(relu_mask, mask, (u32 count, const float *g, const float *y, float *d),
       (u32 count, const double *g, const double *y, double *d), (count, g, y, d))
KERNEL_BF16(relu, rectify, (u32 count, const bf16 *x, bf16 *y), (count, x, y))
KERNEL_BF16(add_relu, add_rectify, (u32 count, const bf16 *a, const bf16 *b, bf16 *y), (count, a, b, y))
KERNEL_BF16(relu_mask, mask, (u32 count, const bf16 *g, const bf16 *y, bf16 *d), (count, g, y, d))
