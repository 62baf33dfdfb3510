// Maximum pooling and its gradient, of maps in either order. An element is ((plane · pixels) + pixel) · inner + channel,
// where inner is 1 for (N, C, H, W), and C for (N, H, W, C).
#include "../kernels.cuh"

struct Windows {
  int height, width, out_h, out_w, kernel, stride, padding, inner;
};

// Returns the pixel of the first maximum of a window in row order, or of the last NaN.
template <typename T>
__device__ int maximum(const T *plane, const Windows &g, int oy, int ox) {
  int y0 = most(oy * g.stride - g.padding, 0), y1 = least(oy * g.stride - g.padding + g.kernel, g.height);
  int x0 = most(ox * g.stride - g.padding, 0), x1 = least(ox * g.stride - g.padding + g.kernel, g.width);
  int at = y0 * g.width + x0;
  T best = plane[(i64)at * g.inner];
  for (int y = y0; y < y1; ++y)
    for (int x = x0; x < x1; ++x) {
      T value = plane[(i64)(y * g.width + x) * g.inner];
      if (value > best || value != value) {
        at = y * g.width + x;
        best = value;
      }
    }
  return at;
}

// A thread for each output.
template <typename T>
__device__ void forward(u32 count, const T *x, T *y, Windows g) {
  FOR_EACH(i, count) {
    u32 pixels = g.out_h * g.out_w, channel = i % g.inner, pixel = i / g.inner % pixels, plane = i / g.inner / pixels;
    const T *from = x + (i64)plane * g.height * g.width * g.inner + channel;
    y[i] = from[(i64)maximum(from, g, pixel / g.out_w, pixel % g.out_w) * g.inner];
  }
}

// A thread for each input, which visits the windows that contain it, in row order.
template <typename T>
__device__ void backward(u32 count, const T *x, const T *dy, T *dx, Windows g) {
  FOR_EACH(i, count) {
    u32 pixels = g.height * g.width, channel = i % g.inner, plane = i / g.inner / pixels;
    int pixel = i / g.inner % pixels, row = pixel / g.width + g.padding, column = pixel % g.width + g.padding;
    const T *from = x + (i64)plane * pixels * g.inner + channel;
    const T *grad = dy + (i64)plane * g.out_h * g.out_w * g.inner + channel;
    int y0 = row < g.kernel ? 0 : (row - g.kernel) / g.stride + 1, y1 = least(row / g.stride, g.out_h - 1);
    int x0 = column < g.kernel ? 0 : (column - g.kernel) / g.stride + 1, x1 = least(column / g.stride, g.out_w - 1);
    typename Wide<T>::type sum = 0;
    for (int oy = y0; oy <= y1; ++oy)
      for (int ox = x0; ox <= x1; ++ox)
        if (maximum(from, g, oy, ox) == pixel) sum += grad[(i64)(oy * g.out_w + ox) * g.inner];
    dx[i] = sum;
  }
}

#define GEOMETRY int height, int width, int out_h, int out_w, int kernel, int stride, int padding, int inner
#define WINDOWS Windows{height, width, out_h, out_w, kernel, stride, padding, inner}

KERNEL(max_pool_forward, forward, (u32 count, const float *x, float *y, GEOMETRY),
       (u32 count, const double *x, double *y, GEOMETRY), (count, x, y, WINDOWS))
KERNEL(max_pool_backward, backward, (u32 count, const float *x, const float *dy, float *dx, GEOMETRY),
       (u32 count, const double *x, const double *dy, double *dx, GEOMETRY), (count, x, dy, dx, WINDOWS))
KERNEL_BF16(max_pool_forward, forward, (u32 count, const bf16 *x, bf16 *y, GEOMETRY), (count, x, y, WINDOWS))
KERNEL_BF16(max_pool_backward, backward, (u32 count, const bf16 *x, const bf16 *dy, bf16 *dx, GEOMETRY), (count, x, dy, dx, WINDOWS))
