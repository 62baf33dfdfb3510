// Sums over the batch for batch norm of (N, C, plane), in f64 and in one order: each block adds up a share of a channel's numbers,
// then a thread for each channel adds up the shares.
#include "kernels.cuh"

const int THREADS = 256;

// Adds `a` and `b` of the block's threads, pair by pair; thread 0 has the sums. All threads of the block take part.
__device__ void add_up(double &a, double &b) {
  __shared__ double sums_a[THREADS];
  __shared__ double sums_b[THREADS];
  int i = threadIdx.x;
  sums_a[i] = a;
  sums_b[i] = b;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (i < half) {
      sums_a[i] += sums_a[i + half];
      sums_b[i] += sums_b[i + half];
    }
    __syncthreads();
  }
  a = sums_a[0];
  b = sums_b[0];
}

// Block (share, channel) of `channels · shares` blocks: the sums of x and of x², or with `has_grad` those of g and of g · (x − mean),
// to shares (2, shares, channels). `stats` are (mean, variance) of each channel, (2, channels).
template <typename T>
__device__ void partial(u32, const T *x, const T *grad, const double *stats, double *shares, int has_grad, int images, int channels,
                        int plane, int num_shares) {
  int channel = blockIdx.x % channels, share = blockIdx.x / channels;
  i64 total = (i64)images * plane, each = (total + num_shares - 1) / num_shares;
  i64 end = least(total, (share + 1) * each);
  double a = 0.0, b = 0.0, mean = has_grad ? stats[channel] : 0.0;
  for (i64 i = share * each + threadIdx.x; i < end; i += THREADS) {
    i64 at = (i / plane * channels + channel) * plane + i % plane;
    double value = (typename Wide<T>::type)x[at];
    if (has_grad) {
      double g = (typename Wide<T>::type)grad[at];
      a += g;
      b += g * (value - mean);
    } else {
      a += value;
      b += value * value;
    }
  }
  add_up(a, b);
  if (threadIdx.x == 0) {
    shares[(i64)share * channels + channel] = a;
    shares[((i64)num_shares + share) * channels + channel] = b;
  }
}

#define SIZES int has_grad, int images, int channels, int plane, int num_shares

KERNEL(norm_partial, partial,
       (u32 count, const float *x, const float *grad, const double *stats, double *shares, SIZES),
       (u32 count, const double *x, const double *grad, const double *stats, double *shares, SIZES),
       (count, x, grad, stats, shares, has_grad, images, channels, plane, num_shares))
KERNEL_BF16(norm_partial, partial,
            (u32 count, const bf16 *x, const bf16 *grad, const double *stats, double *shares, SIZES),
            (count, x, grad, stats, shares, has_grad, images, channels, plane, num_shares))
