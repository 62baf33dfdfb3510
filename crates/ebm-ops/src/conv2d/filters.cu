// Reorders filters (O, C, taps) to (O, taps, C), the order in which cuDNN reads them beside maps with the channels innermost,
// in the type of the maps; and reorders the gradient in them back.
#include "../kernels.cuh"

// A thread for each number of the result.
template <typename T>
__device__ void pack(u32 count, const typename Wide<T>::type *w, T *to, int channels, int taps) {
  FOR_EACH(i, count) {
    int c = i % channels, tap = i / channels % taps, o = i / channels / taps;
    to[i] = w[((i64)o * channels + c) * taps + tap];
  }
}

template <typename T>
__device__ void unpack(u32 count, const T *w, typename Wide<T>::type *to, int channels, int taps) {
  FOR_EACH(i, count) {
    int tap = i % taps, c = i / taps % channels, o = i / taps / channels;
    to[i] = w[((i64)o * taps + tap) * channels + c];
  }
}

#define SIZES int channels, int taps

KERNEL(filters_pack, pack, (u32 count, const float *w, float *to, SIZES), (u32 count, const double *w, double *to, SIZES),
       (count, w, to, channels, taps))
KERNEL_BF16(filters_pack, pack, (u32 count, const float *w, bf16 *to, SIZES), (count, w, to, channels, taps))
KERNEL(filters_unpack, unpack, (u32 count, const float *w, float *to, SIZES), (u32 count, const double *w, double *to, SIZES),
       (count, w, to, channels, taps))
KERNEL_BF16(filters_unpack, unpack, (u32 count, const bf16 *w, float *to, SIZES), (count, w, to, channels, taps))
