// PrRoIPool of boxes that lie in several maps, and its gradient in the boxes, for prediction. Each is one launch for all
// levels.
//
// Like the maps, pooled boxes have their channels innermost. There is a block for each box and each row of its bins. It reads
// every pixel under BINS bins once: it adds up each column with the weights of y, and adds the sum, times the weights of x,
// to the bins that have the column. Neighbouring threads have neighbouring channels.
#include "tent.cuh"

const int THREADS = 256, LEVELS = 4;

// Pixels along an axis whose weights a block holds at a time, and bins that it holds.
const int HELD = 64, BINS = 8;

// Columns that are read at a time. A thread waits once for all of them.
const int TOGETHER = 4;

// Map (N, H, W, C), and its pixels per pixel of the image.
template <typename T>
struct Level {
  const T *map;
  int height, width;
  double scale;
};

template <typename T>
struct Levels {
  Level<T> of[LEVELS];
  int count, images, channels, out_h, out_w;
};

// Box of a block, its level and its image in that level.
template <typename T>
struct BoxOnMap {
  Box box;
  const T *image;
  int height, width;
  double scale;
};

// Reads a row (level, image, x0, y0, x1, y1). A row that is not finite, or names no level or image, gives a box without area.
template <typename T>
__device__ BoxOnMap<T> box_on_map(const Levels<T> &g, const T *rows, int r) {
  const T *row = rows + (i64)r * 6;
  double number = row[0];
  int level = number >= 0.0 && number < (double)g.count && number == floor(number) ? (int)number : -1;
  BoxOnMap<T> on_map = {};
  for (int l = 0; l < LEVELS; ++l) {
    if (l != level) continue;
    on_map.height = g.of[l].height, on_map.width = g.of[l].width, on_map.scale = g.of[l].scale, on_map.image = g.of[l].map;
  }
  on_map.box = box_at(row + 1, g.images, on_map.scale);
  if (level < 0 || !on_map.box.valid || !has_area(on_map.box)) {
    on_map.height = on_map.width = 0;
  } else {
    on_map.image += (i64)row[1] * on_map.height * on_map.width * g.channels;
  }
  return on_map;
}

// Memory that the threads of a block share: the box; the row of bins and some of its bins; the weights, and with SLOPES their
// derivatives, of the rows from `top` on in the row of bins and of the columns from `left` on in each bin; the bins that have
// a column; and a number for each bin and thread.
template <typename T, bool SLOPES>
struct Shared {
  static const int TABLES = SLOPES ? 3 : 1;
  BoxOnMap<T> on_map;
  Bin row, bins[BINS];
  T y[TABLES][HELD], x[TABLES][HELD][BINS], numbers[BINS][THREADS];
  int from[HELD], until[HELD];

  // Loads the box, and `count` bins from `first` on of the box's row p.
  __device__ void load(const Levels<T> &g, const T *rows, int r, int p, int first, int count) {
    int me = threadIdx.x;
    __syncthreads();
    if (me == 0) on_map = box_on_map(g, rows, r);
    __syncthreads();
    if (me < count) bins[me] = bin_at(on_map.box.start[1], on_map.box.end[1], first + me, g.out_w, on_map.width);
    if (me == BINS) row = bin_at(on_map.box.start[0], on_map.box.end[0], p, g.out_h, on_map.height);
    __syncthreads();
  }

  __device__ void weigh(int count, int top, int left) {
    int me = threadIdx.x;
    __syncthreads();
    if (me < HELD && top + me < row.span.until) {
      Weight weight = weight_of(row, top + me);
      y[0][me] = (T)weight.value;
      if (SLOPES) y[TABLES - 2][me] = (T)weight.d_start, y[TABLES - 1][me] = (T)weight.d_end;
    }
    for (int i = me; i < HELD * count; i += THREADS) {
      int bin = i % count, column = i / count;
      if (left + column < bins[bin].span.first || left + column >= bins[bin].span.until) continue;
      Weight weight = weight_of(bins[bin], left + column);
      x[0][column][bin] = (T)weight.value;
      if (SLOPES) x[TABLES - 2][column][bin] = (T)weight.d_start, x[TABLES - 1][column][bin] = (T)weight.d_end;
    }
    if (me < HELD) {
      int low = count, high = 0;
      for (int bin = 0; bin < count; ++bin) {
        if (left + me < bins[bin].span.first || left + me >= bins[bin].span.until) continue;
        low = least(low, bin), high = bin + 1;
      }
      from[me] = low, until[me] = high;
    }
    __syncthreads();
  }
};

// Calls `add` for each column under `count` bins and each bin that has it, with the column's sum by the weights of y and,
// with SLOPES, the sums by their derivatives.
template <typename T, bool SLOPES, typename Add>
__device__ void under(Shared<T, SLOPES> &shared, int channels, int count, int c, Add &add) {
  const int TABLES = Shared<T, SLOPES>::TABLES;
  int bottom = shared.row.span.until, end = shared.bins[count - 1].span.until, width = shared.on_map.width;
  for (int top = shared.row.span.first; top < bottom; top += HELD)
    for (int left = shared.bins[0].span.first; left < end; left += HELD) {
      shared.weigh(count, top, left);
      if (c >= channels) continue;
      int rows = least(bottom - top, HELD), columns = least(end - left, HELD);
      i64 below = (i64)width * channels;
      const T *corner = shared.on_map.image + ((i64)top * width + left) * channels + c;
      for (int first = 0; first < columns; first += TOGETHER) {
        // The last column stands in for columns that do not exist.
        i64 at[TOGETHER];
        for (int j = 0; j < TOGETHER; ++j) at[j] = (i64)least(first + j, columns - 1) * channels;
        T sums[TOGETHER][TABLES] = {};
#pragma unroll 4
        for (int i = 0; i < rows; ++i) {
          for (int j = 0; j < TOGETHER; ++j) {
            T value = corner[i * below + at[j]];
            for (int k = 0; k < TABLES; ++k) sums[j][k] += shared.y[k][i] * value;
          }
        }
        for (int j = 0; j < TOGETHER; ++j) {
          int column = first + j;
          if (column >= columns) continue;
          for (int bin = shared.from[column]; bin < shared.until[column]; ++bin) add.column(shared, column, bin, sums[j]);
        }
      }
    }
}

template <typename T>
struct Pooled {
  __device__ void column(Shared<T, false> &shared, int column, int bin, const T *sums) {
    shared.numbers[bin][threadIdx.x] += shared.x[0][column][bin] * sums[0];
  }
};

template <typename T>
__device__ void pool(u32, const T *rows, T *pooled, const Levels<T> &g) {
  __shared__ Shared<T, false> shared;
  for (int first = 0; first < g.out_w; first += BINS) {
    int count = least(g.out_w - first, BINS);
    shared.load(g, rows, blockIdx.x / g.out_h, blockIdx.x % g.out_h, first, count);
    for (int start = 0; start < g.channels; start += THREADS) {
      int c = start + threadIdx.x;
      for (int bin = 0; bin < count; ++bin) shared.numbers[bin][threadIdx.x] = 0;
      Pooled<T> add;
      under(shared, g.channels, count, c, add);
      T *to = pooled + ((i64)blockIdx.x * g.out_w + first) * g.channels + c;
      for (int bin = 0; bin < count && c < g.channels; ++bin) to[(i64)bin * g.channels] = shared.numbers[bin][threadIdx.x];
    }
  }
}

// A thread's shares of the gradient in x0, y0, x1, y1. The numbers that the block holds are the gradients of the pooled box.
template <typename T>
struct Slopes {
  T of[4];
  __device__ void column(Shared<T, true> &shared, int column, int bin, const T *sums) {
    T gradient = shared.numbers[bin][threadIdx.x], weight = gradient * shared.x[0][column][bin];
    of[0] += gradient * shared.x[1][column][bin] * sums[0];
    of[1] += weight * sums[1];
    of[2] += gradient * shared.x[2][column][bin] * sums[0];
    of[3] += weight * sums[2];
  }
};

// Computes the share of each row of bins in the gradient of a box's x0, y0, x1, y1, in pixels of the image: (R, out_h, 4).
template <typename T>
__device__ void slopes(u32, const T *rows, const T *grad, T *shares, const Levels<T> &g) {
  __shared__ Shared<T, true> shared;
  int me = threadIdx.x;
  Slopes<T> own = {};
  for (int first = 0; first < g.out_w; first += BINS) {
    int count = least(g.out_w - first, BINS);
    shared.load(g, rows, blockIdx.x / g.out_h, blockIdx.x % g.out_h, first, count);
    for (int start = 0; start < g.channels; start += THREADS) {
      int c = start + me;
      const T *from = grad + ((i64)blockIdx.x * g.out_w + first) * g.channels + c;
      for (int bin = 0; bin < count && c < g.channels; ++bin) shared.numbers[bin][me] = from[(i64)bin * g.channels];
      under(shared, g.channels, count, c, own);
    }
  }
  for (int k = 0; k < 4; ++k) shared.numbers[k][me] = own.of[k];
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (me < half)
      for (int k = 0; k < 4; ++k) shared.numbers[k][me] += shared.numbers[k][me + half];
    __syncthreads();
  }
  if (me < 4) shares[(i64)blockIdx.x * 4 + me] = (T)(shared.numbers[me][0] * shared.on_map.scale);
}

#define LEVEL(T, i) const T *map_##i, int height_##i, int width_##i, double scale_##i
#define MAPS(T) LEVEL(T, 0), LEVEL(T, 1), LEVEL(T, 2), LEVEL(T, 3), int levels, int images, int channels, int out_h, int out_w
#define OF(T, i) Level<T>{map_##i, height_##i, width_##i, scale_##i}
#define ALL(T) Levels<T>{{OF(T, 0), OF(T, 1), OF(T, 2), OF(T, 3)}, levels, images, channels, out_h, out_w}

extern "C" __global__ void levels_pool_f32(u32 count, const float *rows, float *pooled, MAPS(float)) {
  pool<float>(count, rows, pooled, ALL(float));
}
extern "C" __global__ void levels_pool_f64(u32 count, const double *rows, double *pooled, MAPS(double)) {
  pool<double>(count, rows, pooled, ALL(double));
}
extern "C" __global__ void levels_slopes_f32(u32 count, const float *rows, const float *grad, float *shares, MAPS(float)) {
  slopes<float>(count, rows, grad, shares, ALL(float));
}
extern "C" __global__ void levels_slopes_f64(u32 count, const double *rows, const double *grad, double *shares, MAPS(double)) {
  slopes<double>(count, rows, grad, shares, ALL(double));
}
