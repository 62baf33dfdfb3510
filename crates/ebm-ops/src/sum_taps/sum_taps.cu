// Sum over the taps of a convolution with one output channel, and its adjoint.
#include "../kernels.cuh"

// products (n, H, W, k²) -> sums (n, H, W), with a thread for each sum.
template <typename T>
__device__ void sum(u32 count, const T *products, T *sums, int height, int width, int kernel) {
  int half = kernel / 2, taps = kernel * kernel;
  FOR_EACH(i, count) {
    int column = i % width, row = i / width % height;
    i64 plane = i / width / height;
    T total = 0;
    for (int tap = 0; tap < taps; ++tap) {
      int r = row + tap / kernel - half, c = column + tap % kernel - half;
      if (r >= 0 && r < height && c >= 0 && c < width) total += products[((plane * height + r) * width + c) * taps + tap];
    }
    sums[i] = total;
  }
}

// sums (n, H, W) -> products (n, H, W, k²), with a thread for each product.
template <typename T>
__device__ void spread(u32 count, const T *sums, T *products, int height, int width, int kernel) {
  int half = kernel / 2, taps = kernel * kernel;
  FOR_EACH(i, count) {
    int tap = i % taps, column = i / taps % width, row = i / taps / width % height;
    i64 plane = i / taps / width / height;
    int r = row - tap / kernel + half, c = column - tap % kernel + half;
    bool inside = r >= 0 && r < height && c >= 0 && c < width;
    products[i] = inside ? sums[(plane * height + r) * width + c] : (T)0;
  }
}

#define SIZES int height, int width, int kernel

KERNEL(sum_taps, sum, (u32 count, const float *x, float *y, SIZES), (u32 count, const double *x, double *y, SIZES),
       (count, x, y, height, width, kernel))
KERNEL(spread_taps, spread, (u32 count, const float *x, float *y, SIZES),
       (u32 count, const double *x, double *y, SIZES), (count, x, y, height, width, kernel))
