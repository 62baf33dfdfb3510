// Depthwise convolution of maps (n, H, W, C) with weights (kh · kw, C), and its gradients.
#include "../kernels.cuh"

struct Sizes {
  int height, width, out_h, out_w, kernel_h, kernel_w, stride, top, left, channels;
};

// x -> y (n, out_h, out_w, C), with a thread for each number of y.
template <typename T>
__device__ void forward(u32 count, const T *x, const T *w, T *y, Sizes g) {
  FOR_EACH(i, count) {
    int c = i % g.channels, column = i / g.channels % g.out_w, row = i / g.channels / g.out_w % g.out_h;
    i64 image = i / g.channels / g.out_w / g.out_h;
    T sum = 0;
    for (int u = 0; u < g.kernel_h; ++u) {
      int from_row = row * g.stride + u - g.top;
      if (from_row < 0 || from_row >= g.height) continue;
      for (int v = 0; v < g.kernel_w; ++v) {
        int from_column = column * g.stride + v - g.left;
        if (from_column < 0 || from_column >= g.width) continue;
        sum += x[((image * g.height + from_row) * g.width + from_column) * g.channels + c] * w[(u * g.kernel_w + v) * g.channels + c];
      }
    }
    y[i] = sum;
  }
}

// dy -> dx (n, H, W, C), with a thread for each number of dx, which adds the outputs that read it.
template <typename T>
__device__ void input_gradient(u32 count, const T *dy, const T *w, T *dx, Sizes g) {
  FOR_EACH(i, count) {
    int c = i % g.channels, column = i / g.channels % g.width, row = i / g.channels / g.width % g.height;
    i64 image = i / g.channels / g.width / g.height;
    T sum = 0;
    for (int u = 0; u < g.kernel_h; ++u) {
      int down = row + g.top - u;
      if (down < 0 || down % g.stride || down / g.stride >= g.out_h) continue;
      for (int v = 0; v < g.kernel_w; ++v) {
        int across = column + g.left - v;
        if (across < 0 || across % g.stride || across / g.stride >= g.out_w) continue;
        i64 pixel = (image * g.out_h + down / g.stride) * g.out_w + across / g.stride;
        sum += dy[pixel * g.channels + c] * w[(u * g.kernel_w + v) * g.channels + c];
      }
    }
    dx[i] = sum;
  }
}

// x, dy -> (shares, kh · kw, C), with a thread for each weight and share of the n · out_h rows of dy.
template <typename T>
__device__ void weight_gradient(u32 count, const T *x, const T *dy, T *shares, int rows, int num_shares, Sizes g) {
  int taps = g.kernel_h * g.kernel_w;
  FOR_EACH(i, count) {
    int c = i % g.channels, tap = i / g.channels % taps, share = i / g.channels / taps;
    int u = tap / g.kernel_w, v = tap % g.kernel_w;
    T sum = 0;
    for (int row = share; row < rows; row += num_shares) {
      int from_row = row % g.out_h * g.stride + u - g.top;
      if (from_row < 0 || from_row >= g.height) continue;
      i64 line = (i64)(row / g.out_h) * g.height + from_row;
      for (int column = 0; column < g.out_w; ++column) {
        int from_column = column * g.stride + v - g.left;
        if (from_column < 0 || from_column >= g.width) continue;
        sum += x[(line * g.width + from_column) * g.channels + c] * dy[((i64)row * g.out_w + column) * g.channels + c];
      }
    }
    shares[i] = sum;
  }
}

// (shares, len) -> (len), with a thread for each sum.
template <typename T>
__device__ void gather(u32 count, const T *shares, T *sums, int num_shares, int len) {
  FOR_EACH(i, count) {
    T sum = 0;
    for (int share = 0; share < num_shares; ++share) sum += shares[(i64)share * len + i];
    sums[i] = sum;
  }
}

#define SIZES int height, int width, int out_h, int out_w, int kernel_h, int kernel_w, int stride, int top, int left, int channels
#define GIVEN Sizes{height, width, out_h, out_w, kernel_h, kernel_w, stride, top, left, channels}

KERNEL(depthwise_forward, forward, (u32 count, const float *x, const float *w, float *y, SIZES),
       (u32 count, const double *x, const double *w, double *y, SIZES), (count, x, w, y, GIVEN))
KERNEL(depthwise_input, input_gradient, (u32 count, const float *dy, const float *w, float *dx, SIZES),
       (u32 count, const double *dy, const double *w, double *dx, SIZES), (count, dy, w, dx, GIVEN))
KERNEL(depthwise_weight, weight_gradient, (u32 count, const float *x, const float *dy, float *shares, int rows, int num_shares, SIZES),
       (u32 count, const double *x, const double *dy, double *shares, int rows, int num_shares, SIZES),
       (count, x, dy, shares, rows, num_shares, GIVEN))
KERNEL(depthwise_gather, gather, (u32 count, const float *shares, float *sums, int num_shares, int len),
       (u32 count, const double *shares, double *sums, int num_shares, int len), (count, shares, sums, num_shares, len))
