// Nearest-neighbour resizing of (planes, H, W, inner) and its adjoint: inner is 1 for (N, C, H, W), and C for (N, H, W, C).
#include "../kernels.cuh"

// Returns the input index of output `i`, computed in f32 as PyTorch does.
__device__ __forceinline__ int source(int i, float scale, int size) { return least((int)((float)i * scale), size - 1); }

// Returns the range of outputs that may read input `s`, with a small margin.
__device__ __forceinline__ int reach_start(int s, int size, int out) { return most((int)((i64)s * out / size) - 2, 0); }
__device__ __forceinline__ int reach_end(int s, int size, int out) {
  return s == size - 1 ? out : (int)least<i64>((i64)(s + 1) * out / size + 3, out);
}

// A thread for each output.
template <typename T>
__device__ void forward(u32 count, const T *x, T *y, int height, int width, int out_h, int out_w, int inner) {
  float down = (float)height / (float)out_h, across = (float)width / (float)out_w;
  FOR_EACH(i, count) {
    int channel = i % inner, column = i / inner % out_w, row = i / inner / out_w % out_h;
    i64 plane = i / inner / out_w / out_h;
    y[i] = x[((plane * height + source(row, down, height)) * width + source(column, across, width)) * inner + channel];
  }
}

// A thread for each input, which adds its copies in row order.
template <typename T>
__device__ void backward(u32 count, const T *dy, T *dx, int height, int width, int out_h, int out_w, int inner) {
  float down = (float)height / (float)out_h, across = (float)width / (float)out_w;
  FOR_EACH(i, count) {
    int channel = i % inner, column = i / inner % width, row = i / inner / width % height;
    const T *grad = dy + (i64)(i / inner / width / height) * out_h * out_w * inner + channel;
    typename Wide<T>::type sum = 0;
    for (int r = reach_start(row, height, out_h); r < reach_end(row, height, out_h); ++r) {
      if (source(r, down, height) != row) continue;
      for (int c = reach_start(column, width, out_w); c < reach_end(column, width, out_w); ++c)
        if (source(c, across, width) == column) sum += grad[((i64)r * out_w + c) * inner];
    }
    dx[i] = sum;
  }
}

#define SIZES int height, int width, int out_h, int out_w, int inner

KERNEL(upsample_forward, forward, (u32 count, const float *x, float *y, SIZES),
       (u32 count, const double *x, double *y, SIZES), (count, x, y, height, width, out_h, out_w, inner))
KERNEL(upsample_backward, backward, (u32 count, const float *dy, float *dx, SIZES),
       (u32 count, const double *dy, double *dx, SIZES), (count, dy, dx, height, width, out_h, out_w, inner))
KERNEL_BF16(upsample_forward, forward, (u32 count, const bf16 *x, bf16 *y, SIZES), (count, x, y, height, width, out_h, out_w, inner))
KERNEL_BF16(upsample_backward, backward, (u32 count, const bf16 *dy, bf16 *dx, SIZES), (count, dy, dx, height, width, out_h, out_w, inner))
