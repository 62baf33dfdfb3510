// What follows a convolution (N, C, plane), in one pass: the channels' bias, a residual, ReLU.
#include "../../kernels.cuh"

template <typename T>
__device__ void epilogue(u32 count, const T *x, const typename Wide<T>::type *bias, const T *residual, T *y, int has_residual, int relu,
                         int channels, int plane) {
  typedef typename Wide<T>::type W;
  FOR_EACH(i, count) {
    W value = (W)x[i] + bias[i / plane % channels];
    if (has_residual) value += (W)residual[i];
    y[i] = relu && value < (W)0 ? (W)0 : value;
  }
}

#define FORM int has_residual, int relu, int channels, int plane
#define ARGUMENTS (count, x, bias, residual, y, has_residual, relu, channels, plane)

KERNEL(epilogue, epilogue, (u32 count, const float *x, const float *bias, const float *residual, float *y, FORM),
       (u32 count, const double *x, const double *bias, const double *residual, double *y, FORM), ARGUMENTS)
KERNEL_BF16(epilogue, epilogue, (u32 count, const bf16 *x, const float *bias, const bf16 *residual, bf16 *y, FORM), ARGUMENTS)
