// Batch norm in training of rows of channels (…, C), with what follows it in a residual network, and its gradient.
//
// A thread goes on by the number of threads, which is a multiple of the channels: it keeps its channel, whose factors it makes once.
#include "../ops/kernels.cuh"

// y = γ (x − mean) / √(variance + eps) + β, plus a residual, cut off at 0 where wanted. `affine` is (γ, β), (2, channels).
template <typename T>
__device__ void normalise(u32 count, const T *x, const typename Wide<T>::type *affine, const T *residual, const double *stats, T *y,
                          int has_residual, int relu, int channels, int len, double eps) {
  typedef typename Wide<T>::type W;
  FOR_EACH(thread, count) {
    int c = thread % channels;
    double factor = (double)affine[c] / sqrt(stats[channels + c] + eps);
    W scale = factor, shift = (double)affine[channels + c] - stats[c] * factor;
#pragma unroll 4
    for (u32 i = thread; i < len; i += count) {
      W value = (W)x[i] * scale + shift;
      if (has_residual) value += (W)residual[i];
      y[i] = relu && value < (W)0 ? (W)0 : value;
    }
  }
}

// The gradient in x: γ / std · (g − Σg / m − x̂ · Σ(g · x̂) / m), with `sums` (Σ g · x̂, Σ g) and m = `total`.
template <typename T>
__device__ void backward(u32 count, const T *x, const T *g, const typename Wide<T>::type *affine, const double *stats,
                         const double *sums, T *dx, int channels, int len, double total, double eps) {
  typedef typename Wide<T>::type W;
  FOR_EACH(thread, count) {
    int c = thread % channels;
    double inv_std = 1.0 / sqrt(stats[channels + c] + eps), factor = (double)affine[c] * inv_std;
    double along = -factor * inv_std * sums[c] / total;
    W scale = factor, slope = along, shift = -factor * sums[channels + c] / total - along * stats[c];
#pragma unroll 4
    for (u32 i = thread; i < len; i += count) dx[i] = scale * (W)g[i] + slope * (W)x[i] + shift;
  }
}

// (γ, β), each (channels), as one: (2, channels).
template <typename T>
__device__ void pair(u32 count, const T *weight, const T *bias, T *affine, int channels) {
  FOR_EACH(i, count) affine[i] = i < channels ? weight[i] : bias[i - channels];
}

// running = (1 − momentum) · running + momentum · factor · batch, in f64: a running statistic takes many small steps.
template <typename T>
__device__ void move(u32 count, T *running, const double *batch, double momentum, double factor) {
  FOR_EACH(c, count) running[c] = (T)((1.0 - momentum) * (double)running[c] + momentum * (factor * batch[c]));
}

#define FORM int has_residual, int relu, int channels, int len, double eps
#define BACK int channels, int len, double total, double eps

KERNEL(norm_pair, pair, (u32 count, const float *weight, const float *bias, float *affine, int channels),
       (u32 count, const double *weight, const double *bias, double *affine, int channels), (count, weight, bias, affine, channels))
KERNEL(norm_move, move, (u32 count, float *running, const double *batch, double momentum, double factor),
       (u32 count, double *running, const double *batch, double momentum, double factor), (count, running, batch, momentum, factor))
KERNEL(norm_forward, normalise,
       (u32 count, const float *x, const float *affine, const float *residual, const double *stats, float *y, FORM),
       (u32 count, const double *x, const double *affine, const double *residual, const double *stats, double *y, FORM),
       (count, x, affine, residual, stats, y, has_residual, relu, channels, len, eps))
KERNEL(norm_backward, backward,
       (u32 count, const float *x, const float *g, const float *affine, const double *stats, const double *sums, float *dx, BACK),
       (u32 count, const double *x, const double *g, const double *affine, const double *stats, const double *sums, double *dx, BACK),
       (count, x, g, affine, stats, sums, dx, channels, len, total, eps))
KERNEL_BF16(norm_forward, normalise,
            (u32 count, const bf16 *x, const float *affine, const bf16 *residual, const double *stats, bf16 *y, FORM),
            (count, x, affine, residual, stats, y, has_residual, relu, channels, len, eps))
KERNEL_BF16(norm_backward, backward,
            (u32 count, const bf16 *x, const bf16 *g, const float *affine, const double *stats, const double *sums, bf16 *dx, BACK),
            (count, x, g, affine, stats, sums, dx, channels, len, total, eps))
