// Batch normalisation in training of rows of channels (…, C), with a residual and ReLU, and its gradient.
//
// A thread moves on by the number of threads, which is a multiple of the channels. So it keeps its channel, or its four
// channels, and computes their factors once.
#include "../../kernels.cuh"

// Normalisation of a channel: value · scale + shift.
template <typename T>
struct Affine {
  typename Wide<T>::type scale, shift;
};

template <typename T>
__device__ Affine<T> forward_of(const typename Wide<T>::type *affine, const double *stats, int channels, double eps, int c) {
  double factor = (double)affine[c] / sqrt(stats[channels + c] + eps);
  return Affine<T>{(typename Wide<T>::type)factor, (typename Wide<T>::type)((double)affine[channels + c] - stats[c] * factor)};
}

// y = γ (x − mean) / √(variance + eps) + β, plus a residual, with ReLU if wanted. `affine` is (γ, β), (2, channels).
template <typename T>
__device__ void normalise(u32 count, const T *x, const typename Wide<T>::type *affine, const T *residual, const double *stats, T *y,
                          int has_residual, int relu, int channels, int len, double eps) {
  typedef typename Wide<T>::type W;
  auto cut = [=](W value) { return relu && value < (W)0 ? (W)0 : value; };
  if (is_by_fours(x, channels) && is_by_fours(residual, channels) && is_by_fours(y, channels)) {
    FOR_EACH(thread, least<u32>(count, len / 4)) {
      Affine<T> of[4];
      for (int k = 0; k < 4; ++k) of[k] = forward_of<T>(affine, stats, channels, eps, 4 * thread % channels + k);
#pragma unroll 2
      for (u32 i = 4 * thread; i < len; i += 4 * count) {
        Four<T> values = four_at(x, i), more = has_residual ? four_at(residual, i) : values;
        for (int k = 0; k < 4; ++k) {
          W value = (W)values.of[k] * of[k].scale + of[k].shift;
          values.of[k] = cut(has_residual ? value + (W)more.of[k] : value);
        }
        put_four(y, i, values);
      }
    }
    return;
  }
  FOR_EACH(thread, count) {
    Affine<T> of = forward_of<T>(affine, stats, channels, eps, thread % channels);
    for (u32 i = thread; i < len; i += count) {
      W value = (W)x[i] * of.scale + of.shift;
      y[i] = cut(has_residual ? value + (W)residual[i] : value);
    }
  }
}

// Coefficients of a channel's gradient: g · scale + x · slope + shift.
template <typename T>
struct Backward {
  typename Wide<T>::type scale, slope, shift;
};

template <typename T>
__device__ Backward<T> backward_of(const typename Wide<T>::type *affine, const double *stats, const double *sums, int channels,
                                   double total, double eps, int c) {
  typedef typename Wide<T>::type W;
  double inv_std = 1.0 / sqrt(stats[channels + c] + eps), factor = (double)affine[c] * inv_std;
  double along = -factor * inv_std * sums[c] / total;
  return Backward<T>{(W)factor, (W)along, (W)(-factor * sums[channels + c] / total - along * stats[c])};
}

// Gradient in x: γ / std · (g − Σg / m − x̂ · Σ(g · x̂) / m), with `sums` (Σ g · x̂, Σ g) and m = `total`.
template <typename T>
__device__ void backward(u32 count, const T *x, const T *g, const typename Wide<T>::type *affine, const double *stats,
                         const double *sums, T *dx, int channels, int len, double total, double eps) {
  typedef typename Wide<T>::type W;
  if (is_by_fours(x, channels) && is_by_fours(g, channels) && is_by_fours(dx, channels)) {
    FOR_EACH(thread, least<u32>(count, len / 4)) {
      Backward<T> of[4];
      for (int k = 0; k < 4; ++k) of[k] = backward_of<T>(affine, stats, sums, channels, total, eps, 4 * thread % channels + k);
#pragma unroll 2
      for (u32 i = 4 * thread; i < len; i += 4 * count) {
        Four<T> values = four_at(x, i), grads = four_at(g, i);
        for (int k = 0; k < 4; ++k)
          values.of[k] = of[k].scale * (W)grads.of[k] + of[k].slope * (W)values.of[k] + of[k].shift;
        put_four(dx, i, values);
      }
    }
    return;
  }
  FOR_EACH(thread, count) {
    Backward<T> of = backward_of<T>(affine, stats, sums, channels, total, eps, thread % channels);
    for (u32 i = thread; i < len; i += count) dx[i] = of.scale * (W)g[i] + of.slope * (W)x[i] + of.shift;
  }
}

// Joins γ and β, each (channels), to (2, channels).
template <typename T>
__device__ void pair(u32 count, const T *weight, const T *bias, T *affine, int channels) {
  FOR_EACH(i, count) affine[i] = i < channels ? weight[i] : bias[i - channels];
}

// running = (1 − momentum) · running + momentum · factor · batch, in f64, because a running statistic takes many small steps.
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
