// Columns of image patches and their adjoint, for convolutions as matrix products.
#include "../kernels.cuh"

// Sizes of the convolution. The columns are (n, C · kh · kw, out_h · out_w).
struct Patches {
  int height, width, kernel_h, kernel_w, stride, pad_h, pad_w, out_h, out_w;
};

// x (planes, H, W) -> columns, with a thread for each number of a column.
template <typename T>
__device__ void im2col(u32 count, const T *x, T *columns, Patches g) {
  FOR_EACH(i, count) {
    int column = i % g.out_w, row = i / g.out_w % g.out_h;
    u32 rest = i / g.out_w / g.out_h;
    int v = rest % g.kernel_w, u = rest / g.kernel_w % g.kernel_h;
    i64 plane = rest / g.kernel_w / g.kernel_h;
    int r = row * g.stride + u - g.pad_h, c = column * g.stride + v - g.pad_w;
    bool inside = r >= 0 && r < g.height && c >= 0 && c < g.width;
    columns[i] = inside ? x[(plane * g.height + r) * g.width + c] : (T)0;
  }
}

// columns -> sums at the pixels that they were read from, with a thread for each pixel, which adds in the order of the taps.
template <typename T>
__device__ void col2im(u32 count, const T *columns, T *x, Patches g) {
  FOR_EACH(i, count) {
    int c = i % g.width, r = i / g.width % g.height;
    i64 plane = i / g.width / g.height;
    T sum = 0;
    for (int u = 0; u < g.kernel_h; ++u) {
      int row = r + g.pad_h - u;
      if (row < 0 || row % g.stride || row / g.stride >= g.out_h) continue;
      for (int v = 0; v < g.kernel_w; ++v) {
        int column = c + g.pad_w - v;
        if (column < 0 || column % g.stride || column / g.stride >= g.out_w) continue;
        i64 line = ((plane * g.kernel_h + u) * g.kernel_w + v) * g.out_h + row / g.stride;
        sum += columns[line * g.out_w + column / g.stride];
      }
    }
    x[i] = sum;
  }
}

#define GEOMETRY \
  int height, int width, int kernel_h, int kernel_w, int stride, int pad_h, int pad_w, int out_h, int out_w
#define PATCHES Patches{height, width, kernel_h, kernel_w, stride, pad_h, pad_w, out_h, out_w}

KERNEL(im2col, im2col, (u32 count, const float *x, float *columns, GEOMETRY),
       (u32 count, const double *x, double *columns, GEOMETRY), (count, x, columns, PATCHES))
KERNEL(col2im, col2im, (u32 count, const float *columns, float *x, GEOMETRY),
       (u32 count, const double *columns, double *x, GEOMETRY), (count, columns, x, PATCHES))
