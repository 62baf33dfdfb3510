// ReLU and ReLU6, which has the upper bound `most` too, alone and after a sum, and the gradient of both.
#include "../kernels.cuh"

// NaN stays NaN.
template <typename T>
__device__ __forceinline__ T between(T x, T most) { return x < (T)0 ? (T)0 : x > most ? most : x; }

template <typename T>
__device__ void rectify(u32 count, const T *x, T *y, typename Wide<T>::type most) {
  FOR_EACH(i, count) y[i] = between<typename Wide<T>::type>(x[i], most);
}

template <typename T>
__device__ void add_rectify(u32 count, const T *a, const T *b, T *y, typename Wide<T>::type most) {
  FOR_EACH(i, count) y[i] = between<typename Wide<T>::type>(a[i] + b[i], most);
}

// g where the result lies between the bounds, else 0, with a thread for four numbers.
template <typename T>
__device__ void mask(u32 count, const T *g, const T *y, T *d, typename Wide<T>::type most, u32 len) {
  bool by_fours = is_by_fours(g, len) && is_by_fours(y, len) && is_by_fours(d, len);
  FOR_EACH(thread, count) {
    u32 i = 4 * thread;
    if (by_fours) {
      Four<T> grads = four_at(g, i), results = four_at(y, i);
      for (int k = 0; k < 4; ++k)
        if (!(results.of[k] > (T)0 && results.of[k] < most)) grads.of[k] = (T)0;
      put_four(d, i, grads);
      continue;
    }
    for (; i < least(len, 4 * thread + 4); ++i) d[i] = y[i] > (T)0 && y[i] < most ? g[i] : (T)0;
  }
}

KERNEL(relu, rectify, (u32 count, const float *x, float *y, float most),
       (u32 count, const double *x, double *y, double most), (count, x, y, most))
KERNEL(add_relu, add_rectify, (u32 count, const float *a, const float *b, float *y, float most),
       (u32 count, const double *a, const double *b, double *y, double most), (count, a, b, y, most))
KERNEL(relu_mask, mask, (u32 count, const float *g, const float *y, float *d, float most, u32 len),
       (u32 count, const double *g, const double *y, double *d, double most, u32 len), (count, g, y, d, most, len))
KERNEL_BF16(relu, rectify, (u32 count, const bf16 *x, bf16 *y, float most), (count, x, y, most))
KERNEL_BF16(add_relu, add_rectify, (u32 count, const bf16 *a, const bf16 *b, bf16 *y, float most), (count, a, b, y, most))
KERNEL_BF16(relu_mask, mask, (u32 count, const bf16 *g, const bf16 *y, bf16 *d, float most, u32 len), (count, g, y, d, most, len))
