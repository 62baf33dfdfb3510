// Pooling with separable weights, `out[r,c,p,q] = Σ_y Σ_x wy[p,y] · F[c,y,x] · wx[q,x]`, and its gradients.
//
// Maps have their channels innermost: neighbouring threads have neighbouring channels.
#include "weights.cuh"

// Strides of a map, in elements.
struct Strides {
  i64 image, row, column;
};

// Sizes of a block: threads for 32 channels each of SIDE bins or pixels. The channels of one thread are 32 apart.
const int THREADS = 256, ACROSS = 32, SIDE = THREADS / ACROSS;

// Channels and bins of a block of `forward`.
const int POOLED = 2 * ACROSS, BINS = 64;

// A block for each box and POOLED channels. The bins go through shared memory, because they are innermost in the result.
template <typename T>
__device__ void forward(u32, const T *map, const T *rois, const Span *spans, const T *tables, T *out, int channels, Strides s, Axes g) {
  __shared__ T pooled[POOLED][BINS + 1];
  int chunks = (channels + POOLED - 1) / POOLED, r = blockIdx.x / chunks, first = blockIdx.x % chunks * POOLED;
  int bins = g.out_h * g.out_w, lane = threadIdx.x % ACROSS;
  const T *image = map + (i64)rois[(i64)r * 5] * s.image + first + lane;
  for (int start = 0; start < bins; start += BINS) {
    int here = least(BINS, bins - start);
    for (int b = threadIdx.x / ACROSS; b < here; b += SIDE) {
      int p = (start + b) / g.out_w, q = (start + b) % g.out_w;
      Span y = spans[span_of(g, r, 0, p)], x = spans[span_of(g, r, 1, q)];
      T sums[POOLED / ACROSS] = {};
      if (x.first < x.until) {
        const T *wy = tables + row_of(g, r, 0, p), *wx = tables + row_of(g, r, 1, q);
        for (int row = y.first; row < y.until; ++row) {
          T lines[POOLED / ACROSS] = {};
          for (int column = x.first; column < x.until; ++column) {
            const T *pixel = image + row * s.row + column * s.column;
            T weight = wx[column];
            for (int j = 0; j < POOLED / ACROSS; ++j)
              if (first + lane + j * ACROSS < channels) lines[j] += weight * pixel[j * ACROSS];
          }
          for (int j = 0; j < POOLED / ACROSS; ++j) sums[j] += wy[row] * lines[j];
        }
      }
      for (int j = 0; j < POOLED / ACROSS; ++j) pooled[lane + j * ACROSS][b] = sums[j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < POOLED * here; i += THREADS) {
      int c = i / here, b = i % here;
      if (first + c < channels) out[((i64)r * channels + first + c) * bins + start + b] = pooled[c][b];
    }
    __syncthreads();
  }
}

// Image of a box and the pixels that it may reach, for the gradient in the map. There are no pixels if the box reads nothing.
struct Reach {
  int image, top, bottom, left, right;
};

// A thread for each box.
template <typename T>
__device__ void reach(u32 count, const T *rois, const Span *spans, Reach *reaches, Axes g) {
  FOR_EACH(r, count) {
    int low[2] = {0, 0}, high[2] = {0, 0};
    for (int axis = 0; axis < 2; ++axis) {
      bool any = false;
      for (int bin = 0; bin < (axis == 0 ? g.out_h : g.out_w); ++bin) {
        Span span = spans[span_of(g, r, axis, bin)];
        if (span.first >= span.until) continue;
        low[axis] = any ? least(low[axis], span.first) : span.first;
        high[axis] = any ? most(high[axis], span.until) : span.until;
        any = true;
      }
    }
    bool empty = low[0] >= high[0] || low[1] >= high[1];
    reaches[r] = empty ? Reach{-1, 0, 0, 0, 0} : Reach{(int)rois[(i64)r * 5], low[0], high[0], low[1], high[1]};
  }
}

// Gathers the gradient in the map (N, H, W, C). There is a block for a tile of SIDE pixels side by side and CHUNK channels,
// with CHANNELS channels for each thread. It takes the boxes THREADS at a time and keeps those that reach its tile, in their
// order. Then each thread adds them. `grad` has strides by box and bin.
const int CHANNELS = 8, CHUNK = ACROSS * CHANNELS;

template <typename T>
__device__ void backward_map(u32, const T *grad, const Reach *reaches, const Span *spans, const T *tables, T *d_map, int channels,
                             i64 g_box, i64 g_bin, Axes g) {
  __shared__ int list[THREADS], ends[THREADS];
  int chunks = (channels + CHUNK - 1) / CHUNK, tiles = (g.width + SIDE - 1) / SIDE, block = blockIdx.x;
  int left = block / chunks % tiles * SIDE, row = block / chunks / tiles % g.height;
  int image = block / chunks / tiles / g.height, me = threadIdx.x;
  int column = left + me / ACROSS, first = block % chunks * CHUNK + me % ACROSS;
  T sums[CHANNELS] = {};
  for (int start = 0; start < g.boxes; start += THREADS) {
    int mine = start + me, reached = 0;
    if (mine < g.boxes) {
      Reach box = reaches[mine];
      reached = box.image == image && row >= box.top && row < box.bottom && left < box.right && left + SIDE > box.left;
    }
    // Counts the boxes up to this one. Each step adds a count that is twice as far away.
    ends[me] = reached;
    __syncthreads();
    for (int far = 1; far < THREADS; far *= 2) {
      int before = me >= far ? ends[me - far] : 0;
      __syncthreads();
      ends[me] += before;
      __syncthreads();
    }
    if (reached) list[ends[me] - 1] = mine;
    int found = ends[THREADS - 1];
    __syncthreads();
    for (int k = 0; k < found && column < g.width; ++k) {
      int r = list[k];
      for (int p = 0; p < g.out_h; ++p) {
        Span y = spans[span_of(g, r, 0, p)];
        if (row < y.first || row >= y.until) continue;
        T wy = tables[row_of(g, r, 0, p) + row];
        for (int q = 0; q < g.out_w; ++q) {
          Span x = spans[span_of(g, r, 1, q)];
          if (column < x.first || column >= x.until) continue;
          T weight = wy * tables[row_of(g, r, 1, q) + column];
          const T *from = grad + r * g_box + (p * g.out_w + q) * g_bin;
          for (int j = 0; j < CHANNELS; ++j) {
            int c = first + j * ACROSS;
            if (c < channels) sums[j] += weight * from[c];
          }
        }
      }
    }
    __syncthreads();
  }
  if (column >= g.width) return;
  T *to = d_map + (((i64)image * g.height + row) * g.width + column) * channels;
  for (int j = 0; j < CHANNELS && first + j * ACROSS < channels; ++j) to[first + j * ACROSS] = sums[j];
}

// Channels whose shares a thread of `backward_boxes` adds up.
const int SUMMED = 4;

// Computes the share of each row of bins and of SUMMED channels in the gradient of a box's coordinates y0, y1, x0, x1, in
// pixels of the map: (R, 4, out_h · ⌈C / SUMMED⌉). There is a thread for each share.
template <typename T>
__device__ void backward_boxes(u32 count, const T *grad, const T *map, const T *rois, const Span *spans, const T *tables, T *shares,
                               int channels, Strides s, i64 g_box, i64 g_bin, Axes g) {
  i64 table = table_len(g);
  int groups = (channels + SUMMED - 1) / SUMMED;
  FOR_EACH(i, count) {
    int c = i % groups, p = i / groups % g.out_h, r = i / groups / g.out_h;
    T y0 = 0, y1 = 0, x0 = 0, x1 = 0;
    Span y = spans[span_of(g, r, 0, p)];
    if (y.first < y.until) {
      const T *image = map + (i64)rois[(i64)r * 5] * s.image + c, *wy = tables + row_of(g, r, 0, p);
      for (int q = 0; q < g.out_w; ++q) {
        Span x = spans[span_of(g, r, 1, q)];
        const T *wx = tables + row_of(g, r, 1, q), *by_bin = grad + r * g_box + (p * g.out_w + q) * g_bin + c;
        T weights[SUMMED];
        for (int j = 0; j < SUMMED; ++j) weights[j] = c + j * groups < channels ? by_bin[j * groups] : (T)0;
        for (int row = y.first; row < y.until; ++row) {
          T line = 0, line0 = 0, line1 = 0;
          for (int column = x.first; column < x.until; ++column) {
            const T *pixel = image + row * s.row + column * s.column;
            T value = 0;
            for (int j = 0; j < SUMMED; ++j)
              if (c + j * groups < channels) value += weights[j] * pixel[j * groups];
            line += wx[column] * value;
            line0 += wx[table + column] * value;
            line1 += wx[2 * table + column] * value;
          }
          y0 += wy[table + row] * line;
          y1 += wy[2 * table + row] * line;
          x0 += wy[row] * line0;
          x1 += wy[row] * line1;
        }
      }
    }
    i64 each = (i64)g.out_h * groups;
    T *to = shares + r * 4 * each + p * groups + c;
    to[0] = y0;
    to[each] = y1;
    to[2 * each] = x0;
    to[3 * each] = x1;
  }
}

// Computes the gradient of the rows (image, x0, y0, x1, y1) of the boxes, in pixels of the image. A block adds up the `each`
// shares of a number in f64 and in one order.
template <typename T>
__device__ void add_shares(u32, const T *shares, T *d_rois, int each, double scale) {
  __shared__ double sums[THREADS];
  int r = blockIdx.x / 5, which = blockIdx.x % 5, me = threadIdx.x;
  double sum = 0.0;
  if (which > 0) {
    // Index of x0, y0, x1, y1 among y0, y1, x0, x1.
    int at = which == 1 ? 2 : which == 2 ? 0 : which == 3 ? 3 : 1;
    const T *from = shares + ((i64)r * 4 + at) * each;
    for (int i = me; i < each; i += THREADS) sum += (double)from[i];
  }
  sums[me] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (me < half) sums[me] += sums[me + half];
    __syncthreads();
  }
  if (me == 0) d_rois[blockIdx.x] = (T)(sums[0] * scale);
}

#define GEOMETRY int boxes, int images, int height, int width, int out_h, int out_w
#define AXES Axes{boxes, images, height, width, out_h, out_w}
#define STRIDES i64 s_image, i64 s_row, i64 s_column
#define GRAD i64 g_box, i64 g_bin

KERNEL(roi_forward, forward,
       (u32 count, const float *map, const float *rois, const Span *spans, const float *tables, float *out, int channels, STRIDES,
        GEOMETRY),
       (u32 count, const double *map, const double *rois, const Span *spans, const double *tables, double *out, int channels, STRIDES,
        GEOMETRY),
       (count, map, rois, spans, tables, out, channels, Strides{s_image, s_row, s_column}, AXES))
KERNEL(roi_reach, reach, (u32 count, const float *rois, const Span *spans, Reach *reaches, GEOMETRY),
       (u32 count, const double *rois, const Span *spans, Reach *reaches, GEOMETRY), (count, rois, spans, reaches, AXES))
KERNEL(roi_backward_map, backward_map,
       (u32 count, const float *grad, const Reach *reaches, const Span *spans, const float *tables, float *d_map, int channels, GRAD,
        GEOMETRY),
       (u32 count, const double *grad, const Reach *reaches, const Span *spans, const double *tables, double *d_map, int channels, GRAD,
        GEOMETRY),
       (count, grad, reaches, spans, tables, d_map, channels, g_box, g_bin, AXES))
KERNEL(roi_backward_boxes, backward_boxes,
       (u32 count, const float *grad, const float *map, const float *rois, const Span *spans, const float *tables, float *shares,
        int channels, STRIDES, GRAD, GEOMETRY),
       (u32 count, const double *grad, const double *map, const double *rois, const Span *spans, const double *tables,
        double *shares, int channels, STRIDES, GRAD, GEOMETRY),
       (count, grad, map, rois, spans, tables, shares, channels, Strides{s_image, s_row, s_column}, g_box, g_bin, AXES))
KERNEL(roi_add_shares, add_shares, (u32 count, const float *shares, float *d_rois, int each, double scale),
       (u32 count, const double *shares, double *d_rois, int each, double scale), (count, shares, d_rois, each, scale))
