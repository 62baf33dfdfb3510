// Sums of each channel over rows of channels (M, C), in f64 and in one order. Each block adds up a share of the rows for 32
// channels. Then a block for 32 channels adds up the shares.
#include "kernels.cuh"

// Sizes of a block. Neighbouring threads have neighbouring channels.
const int ACROSS = 32, LANES = 8;

// Adds `a` and `b` over the block's threads of one channel. The threads of the first lane get the sums. All threads of the
// block take part.
__device__ void add_up(double &a, double &b) {
  __shared__ double sums_a[ACROSS * LANES];
  __shared__ double sums_b[ACROSS * LANES];
  int i = threadIdx.x;
  sums_a[i] = a;
  sums_b[i] = b;
  __syncthreads();
  for (int half = LANES / 2; half > 0; half /= 2) {
    if (i < half * ACROSS) {
      sums_a[i] += sums_a[i + half * ACROSS];
      sums_b[i] += sums_b[i + half * ACROSS];
    }
    __syncthreads();
  }
  a = sums_a[i % ACROSS];
  b = sums_b[i % ACROSS];
}

// Block (share, 32 channels): adds up x and x², or with `has_grad` g · (x − mean) and g, and writes the sums to shares (2,
// shares, channels). `stats` are (mean, variance) of each channel, (2, channels).
template <typename T>
__device__ void partial(u32, const T *x, const T *grad, const double *stats, double *shares, int has_grad, int rows, int channels,
                        int num_shares) {
  typedef typename Wide<T>::type W;
  int groups = (channels + ACROSS - 1) / ACROSS, share = blockIdx.x / groups;
  int c = blockIdx.x % groups * ACROSS + threadIdx.x % ACROSS, lane = threadIdx.x / ACROSS;
  i64 each = ((i64)rows + num_shares - 1) / num_shares, end = c < channels ? least<i64>(rows, (share + 1) * each) : 0;
  double a = 0.0, b = 0.0, mean = has_grad && c < channels ? stats[c] : 0.0;
#pragma unroll 8
  for (i64 row = share * each + lane; row < end; row += LANES) {
    double value = (W)x[row * channels + c];
    if (has_grad) {
      double g = (W)grad[row * channels + c];
      a += g * (value - mean);
      b += g;
    } else {
      a += value;
      b += value * value;
    }
  }
  add_up(a, b);
  if (lane == 0 && c < channels) {
    shares[(i64)share * channels + c] = a;
    shares[((i64)num_shares + share) * channels + c] = b;
  }
}

// shares (2, shares, channels) -> with `moments` (mean, biased variance), else (Σ g · x̂, Σ g), each (2, channels). For sums
// of gradients, `stats` are the moments.
template <typename T>
__device__ void gather(u32, const double *shares, const double *stats, double *to, int moments, int channels, int num_shares,
                       double total, double eps) {
  int c = blockIdx.x * ACROSS + threadIdx.x % ACROSS, lane = threadIdx.x / ACROSS;
  double a = 0.0, b = 0.0;
  if (c < channels)
    for (int s = lane; s < num_shares; s += LANES) {
      a += shares[(i64)s * channels + c];
      b += shares[((i64)num_shares + s) * channels + c];
    }
  add_up(a, b);
  if (lane > 0 || c >= channels) return;
  if (moments) {
    double mean = a / total;
    to[c] = mean;
    to[channels + c] = most(b / total - mean * mean, 0.0);
  } else {
    to[c] = a / sqrt(stats[channels + c] + eps);
    to[channels + c] = b;
  }
}

#define SIZES int has_grad, int rows, int channels, int num_shares
#define GATHER \
  (u32 count, const double *shares, const double *stats, double *to, int moments, int channels, int num_shares, double total, double eps)

KERNEL(norm_partial, partial,
       (u32 count, const float *x, const float *grad, const double *stats, double *shares, SIZES),
       (u32 count, const double *x, const double *grad, const double *stats, double *shares, SIZES),
       (count, x, grad, stats, shares, has_grad, rows, channels, num_shares))
KERNEL_BF16(norm_partial, partial,
            (u32 count, const bf16 *x, const bf16 *grad, const double *stats, double *shares, SIZES),
            (count, x, grad, stats, shares, has_grad, rows, channels, num_shares))
KERNEL(norm_gather, gather, GATHER, GATHER, (count, shares, stats, to, moments, channels, num_shares, total, eps))
