// What follows a convolution or a product of rows (…, C), in one pass: the channels' bias, a residual, ReLU.
#include "../../kernels.cuh"

template <typename T>
__device__ void epilogue(u32 count, const T *x, const typename Wide<T>::type *bias, const T *residual, T *y, int has_residual, int relu,
                         int channels, int len) {
  typedef typename Wide<T>::type W;
  // The number of threads is a multiple of the channels.
  FOR_EACH(thread, count) {
    W add = bias[thread % channels];
#pragma unroll 4
    for (u32 i = thread; i < len; i += count) {
      W value = (W)x[i] + add;
      if (has_residual) value += (W)residual[i];
      y[i] = relu && value < (W)0 ? (W)0 : value;
    }
  }
}

#define FORM int has_residual, int relu, int channels, int len
#define ARGUMENTS (count, x, bias, residual, y, has_residual, relu, channels, len)

KERNEL(epilogue, epilogue, (u32 count, const float *x, const float *bias, const float *residual, float *y, FORM),
       (u32 count, const double *x, const double *bias, const double *residual, double *y, FORM), ARGUMENTS)
KERNEL_BF16(epilogue, epilogue, (u32 count, const bf16 *x, const float *bias, const bf16 *residual, bf16 *y, FORM), ARGUMENTS)
