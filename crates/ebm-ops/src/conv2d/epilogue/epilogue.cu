// The operations after a convolution or a product of rows (…, C), in one pass: the channels' bias, a residual, and an
// activation.
#include "../../kernels.cuh"

template <typename T>
__device__ void epilogue(u32 count, const T *x, const typename Wide<T>::type *bias, const T *residual, T *y, int has_residual,
                         typename Wide<T>::type least, typename Wide<T>::type most, int channels, int len) {
  typedef typename Wide<T>::type W;
  // NaN stays NaN.
  auto cut = [=](W value) { return value < least ? least : value > most ? most : value; };
  // The number of threads is a multiple of the channels.
  if (is_by_fours(x, channels) && is_by_fours(residual, channels) && is_by_fours(y, channels)) {
    FOR_EACH(thread, ::least<u32>(count, len / 4)) {
      W add[4];
      for (int k = 0; k < 4; ++k) add[k] = bias[4 * thread % channels + k];
#pragma unroll 2
      for (u32 i = 4 * thread; i < len; i += 4 * count) {
        Four<T> values = four_at(x, i), more = has_residual ? four_at(residual, i) : values;
        for (int k = 0; k < 4; ++k) {
          W value = (W)values.of[k] + add[k];
          values.of[k] = cut(has_residual ? value + (W)more.of[k] : value);
        }
        put_four(y, i, values);
      }
    }
    return;
  }
  FOR_EACH(thread, count) {
    W add = bias[thread % channels];
    for (u32 i = thread; i < len; i += count) {
      W value = (W)x[i] + add;
      y[i] = cut(has_residual ? value + (W)residual[i] : value);
    }
  }
}

#define FORM(type) int has_residual, type least, type most, int channels, int len
#define ARGUMENTS (count, x, bias, residual, y, has_residual, least, most, channels, len)

KERNEL(epilogue, epilogue, (u32 count, const float *x, const float *bias, const float *residual, float *y, FORM(float)),
       (u32 count, const double *x, const double *bias, const double *residual, double *y, FORM(double)), ARGUMENTS)
KERNEL_BF16(epilogue, epilogue, (u32 count, const bf16 *x, const float *bias, const bf16 *residual, bf16 *y, FORM(float)), ARGUMENTS)
