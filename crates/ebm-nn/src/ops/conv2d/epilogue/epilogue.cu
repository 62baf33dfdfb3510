// What follows a convolution or a product of rows (…, C), in one pass: the channels' bias, a residual, and what is cut off.
#include "../../kernels.cuh"

template <typename T>
__device__ void epilogue(u32 count, const T *x, const typename Wide<T>::type *bias, const T *residual, T *y, int has_residual,
                         typename Wide<T>::type least, typename Wide<T>::type most, int channels, int len) {
  typedef typename Wide<T>::type W;
  // The number of threads is a multiple of the channels.
  FOR_EACH(thread, count) {
    W add = bias[thread % channels];
#pragma unroll 4
    for (u32 i = thread; i < len; i += count) {
      W value = (W)x[i] + add;
      if (has_residual) value += (W)residual[i];
      // NaN stays NaN.
      y[i] = value < least ? least : value > most ? most : value;
    }
  }
}

#define FORM(type) int has_residual, type least, type most, int channels, int len
#define ARGUMENTS (count, x, bias, residual, y, has_residual, least, most, channels, len)

KERNEL(epilogue, epilogue, (u32 count, const float *x, const float *bias, const float *residual, float *y, FORM(float)),
       (u32 count, const double *x, const double *bias, const double *residual, double *y, FORM(double)), ARGUMENTS)
KERNEL_BF16(epilogue, epilogue, (u32 count, const bf16 *x, const float *bias, const bf16 *residual, bf16 *y, FORM(float)), ARGUMENTS)
