// Batch norm in training of (N, C, plane), with what follows it in a residual network, and its gradient.
#include "../ops/kernels.cuh"

// shares (2, shares, channels) -> with `moments` (mean, biased variance), else (Σ g, Σ g · x̂), each (2, channels). A thread for each
// channel. `stats` are the moments where the sums are of gradients.
template <typename T>
__device__ void gather(u32 count, const double *shares, const double *stats, double *to, int moments, int channels, int num_shares,
                       double total, double eps) {
  FOR_EACH(c, count) {
    double a = 0.0, b = 0.0;
    for (int s = 0; s < num_shares; ++s) {
      a += shares[(i64)s * channels + c];
      b += shares[((i64)num_shares + s) * channels + c];
    }
    if (moments) {
      double mean = a / total;
      to[c] = mean;
      to[channels + c] = most(b / total - mean * mean, 0.0);
    } else {
      to[c] = a;
      to[channels + c] = b / sqrt(stats[channels + c] + eps);
    }
  }
}

// y = γ (x − mean) / √(variance + eps) + β, plus a residual, cut off at 0 where wanted. `affine` is (γ, β), (2, channels).
template <typename T>
__device__ void normalise(u32 count, const T *x, const typename Wide<T>::type *affine, const T *residual, const double *stats, T *y,
                          int has_residual, int relu, int channels, int plane, double eps) {
  typedef typename Wide<T>::type W;
  FOR_EACH(i, count) {
    int c = i / plane % channels;
    double scale = (double)affine[c] / sqrt(stats[channels + c] + eps);
    W value = (W)x[i] * (W)scale + (W)((double)affine[channels + c] - stats[c] * scale);
    if (has_residual) value += (W)residual[i];
    y[i] = relu && value < (W)0 ? (W)0 : value;
  }
}

// The gradient in x: γ / std · (g − Σg / m − x̂ · Σ(g · x̂) / m), with `sums` (Σ g, Σ g · x̂) and m = `total`.
template <typename T>
__device__ void backward(u32 count, const T *x, const T *g, const typename Wide<T>::type *affine, const double *stats,
                         const double *sums, T *dx, int channels, int plane, double total, double eps) {
  typedef typename Wide<T>::type W;
  FOR_EACH(i, count) {
    int c = i / plane % channels;
    double inv_std = 1.0 / sqrt(stats[channels + c] + eps), scale = (double)affine[c] * inv_std;
    double slope = -scale * inv_std * sums[channels + c] / total;
    dx[i] = (W)scale * (W)g[i] + (W)slope * (W)x[i] + (W)(-scale * sums[c] / total - slope * stats[c]);
  }
}

// running = (1 − momentum) · running + momentum · factor · batch, in f64: a running statistic takes many small steps.
template <typename T>
__device__ void move(u32 count, T *running, const double *batch, double momentum, double factor) {
  FOR_EACH(c, count) running[c] = (T)((1.0 - momentum) * (double)running[c] + momentum * (factor * batch[c]));
}

#define GATHER \
  (u32 count, const double *shares, const double *stats, double *to, int moments, int channels, int num_shares, double total, double eps)
#define FORM int has_residual, int relu, int channels, int plane, double eps
#define BACK int channels, int plane, double total, double eps

KERNEL(norm_gather, gather, GATHER, GATHER, (count, shares, stats, to, moments, channels, num_shares, total, eps))
KERNEL(norm_move, move, (u32 count, float *running, const double *batch, double momentum, double factor),
       (u32 count, double *running, const double *batch, double momentum, double factor), (count, running, batch, momentum, factor))
KERNEL(norm_forward, normalise,
       (u32 count, const float *x, const float *affine, const float *residual, const double *stats, float *y, FORM),
       (u32 count, const double *x, const double *affine, const double *residual, const double *stats, double *y, FORM),
       (count, x, affine, residual, stats, y, has_residual, relu, channels, plane, eps))
KERNEL(norm_backward, backward,
       (u32 count, const float *x, const float *g, const float *affine, const double *stats, const double *sums, float *dx, BACK),
       (u32 count, const double *x, const double *g, const double *affine, const double *stats, const double *sums, double *dx, BACK),
       (count, x, g, affine, stats, sums, dx, channels, plane, total, eps))
KERNEL_BF16(norm_forward, normalise,
            (u32 count, const bf16 *x, const float *affine, const bf16 *residual, const double *stats, bf16 *y, FORM),
            (count, x, affine, residual, stats, y, has_residual, relu, channels, plane, eps))
KERNEL_BF16(norm_backward, backward,
            (u32 count, const bf16 *x, const bf16 *g, const float *affine, const double *stats, const double *sums, bf16 *dx, BACK),
            (count, x, g, affine, stats, sums, dx, channels, plane, total, eps))
