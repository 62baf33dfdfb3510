// Pooling with separable weights, `out[r,c,p,q] = Σ_y Σ_x wy[p,y] · F[c,y,x] · wx[q,x]`, and its gradients.
//
// Maps have any strides. Threads are numbered so that neighbours read neighbouring numbers: with `channels_inner` a thread's channel
// is what changes fastest, else its pixel or bin.
#include "weights.cuh"

// A map's strides, in elements.
struct Strides {
  i64 image, channel, row, column;
};

// A thread for each output.
template <typename T>
__device__ void forward(u32 count, const T *map, const T *rois, const Span *spans, const T *tables, T *out, int channels,
                        int channels_inner, Strides s, Axes g) {
  int bins = g.out_h * g.out_w;
  FOR_EACH(i, count) {
    int c = channels_inner ? i % channels : i / bins % channels;
    int bin = channels_inner ? i / channels % bins : i % bins;
    int r = i / bins / channels, p = bin / g.out_w, q = bin % g.out_w;
    Span y = spans[span_of(g, r, 0, p)], x = spans[span_of(g, r, 1, q)];
    T sum = 0;
    if (y.first < y.until && x.first < x.until) {
      const T *wy = tables + row_of(g, r, 0, p), *wx = tables + row_of(g, r, 1, q);
      const T *plane = map + (i64)rois[(i64)r * 5] * s.image + c * s.channel;
      for (int row = y.first; row < y.until; ++row) {
        T line = 0;
        for (int column = x.first; column < x.until; ++column)
          line += wx[column] * plane[row * s.row + column * s.column];
        sum += wy[row] * line;
      }
    }
    out[((i64)r * channels + c) * bins + bin] = sum;
  }
}

// What the gradient in the map asks of a box: the pixels that it may reach, none where it reads nothing.
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

// A block of the gradient in the map: THREADS threads for a tile of 8 pixels side by side and CHUNK channels, CHANNELS of them a
// thread. It takes the boxes THREADS at a time and keeps those that reach its tile, in their order.
const int THREADS = 256, TILE = 8, ACROSS = THREADS / TILE, CHANNELS = 8, CHUNK = ACROSS * CHANNELS;

// The gradient in the map, gathered: a thread adds the boxes in their order. `grad` has strides by box, channel and bin; the result is
// (N, C, H, W), or (N, H, W, C) with `channels_inner`.
template <typename T>
__device__ void backward_map(u32, const T *grad, const Reach *reaches, const Span *spans, const T *tables, T *d_map, int channels,
                             int channels_inner, i64 g_box, i64 g_channel, i64 g_bin, Axes g) {
  __shared__ int list[THREADS], ends[THREADS];
  int chunks = (channels + CHUNK - 1) / CHUNK, tiles = (g.width + TILE - 1) / TILE, block = blockIdx.x;
  int chunk = block % chunks, left = block / chunks % tiles * TILE, row = block / chunks / tiles % g.height;
  int image = block / chunks / tiles / g.height, me = threadIdx.x;
  // Neighbouring threads have neighbouring channels, or pixels where those lie together.
  int column = left + (channels_inner ? me / ACROSS : me % TILE), first = chunk * CHUNK + (channels_inner ? me % ACROSS : me / TILE);
  T sums[CHANNELS] = {};
  for (int start = 0; start < g.boxes; start += THREADS) {
    int mine = start + me, reached = 0;
    if (mine < g.boxes) {
      Reach box = reaches[mine];
      reached = box.image == image && row >= box.top && row < box.bottom && left < box.right && left + TILE > box.left;
    }
    // How many boxes up to this one there are: each step adds what is twice as far away.
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
            if (c < channels) sums[j] += weight * from[c * g_channel];
          }
        }
      }
    }
    __syncthreads();
  }
  if (column >= g.width) return;
  i64 pixels = (i64)g.height * g.width, pixel = (i64)row * g.width + column;
  for (int j = 0; j < CHANNELS; ++j) {
    int c = first + j * ACROSS;
    if (c >= channels) break;
    d_map[channels_inner ? (image * pixels + pixel) * channels + c : ((i64)image * channels + c) * pixels + pixel] = sums[j];
  }
}

// The share of each row of bins and each channel in the gradient of a box's coordinates y0, y1, x0, x1 in pixels of the map:
// (R, 4, out_h · C). A thread for each of those.
template <typename T>
__device__ void backward_boxes(u32 count, const T *grad, const T *map, const T *rois, const Span *spans, const T *tables, T *shares,
                               int channels, Strides s, i64 g_box, i64 g_channel, i64 g_bin, Axes g) {
  i64 table = table_len(g);
  FOR_EACH(i, count) {
    int c = i % channels, p = i / channels % g.out_h, r = i / channels / g.out_h;
    T y0 = 0, y1 = 0, x0 = 0, x1 = 0;
    const T *plane = 0;
    Span y = spans[span_of(g, r, 0, p)];
    if (y.first < y.until) {
      const T *wy = tables + row_of(g, r, 0, p);
      for (int q = 0; q < g.out_w; ++q) {
        Span x = spans[span_of(g, r, 1, q)];
        if (x.first >= x.until) continue;
        if (!plane) plane = map + (i64)rois[(i64)r * 5] * s.image + c * s.channel;
        const T *wx = tables + row_of(g, r, 1, q);
        T by_y0 = 0, by_y1 = 0, by_x0 = 0, by_x1 = 0;
        for (int row = y.first; row < y.until; ++row) {
          T line = 0, line0 = 0, line1 = 0;
          for (int column = x.first; column < x.until; ++column) {
            T value = plane[row * s.row + column * s.column];
            line += wx[column] * value;
            line0 += wx[table + column] * value;
            line1 += wx[2 * table + column] * value;
          }
          by_y0 += wy[table + row] * line;
          by_y1 += wy[2 * table + row] * line;
          by_x0 += wy[row] * line0;
          by_x1 += wy[row] * line1;
        }
        T weight = grad[r * g_box + c * g_channel + (p * g.out_w + q) * g_bin];
        y0 += weight * by_y0;
        y1 += weight * by_y1;
        x0 += weight * by_x0;
        x1 += weight * by_x1;
      }
    }
    i64 each = (i64)g.out_h * channels;
    T *to = shares + r * 4 * each + p * channels + c;
    to[0] = y0;
    to[each] = y1;
    to[2 * each] = x0;
    to[3 * each] = x1;
  }
}

// The gradient of the rows (image, x0, y0, x1, y1) of the boxes, in pixels of the image: each number's `each` shares added up in f64
// and in one order, by a block.
template <typename T>
__device__ void add_shares(u32, const T *shares, T *d_rois, int each, double scale) {
  __shared__ double sums[THREADS];
  int r = blockIdx.x / 5, which = blockIdx.x % 5, me = threadIdx.x;
  double sum = 0.0;
  if (which > 0) {
    // x0, y0, x1, y1 among y0, y1, x0, x1.
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
#define STRIDES i64 s_image, i64 s_channel, i64 s_row, i64 s_column
#define GRAD i64 g_box, i64 g_channel, i64 g_bin

KERNEL(roi_forward, forward,
       (u32 count, const float *map, const float *rois, const Span *spans, const float *tables, float *out, int channels,
        int channels_inner, STRIDES, GEOMETRY),
       (u32 count, const double *map, const double *rois, const Span *spans, const double *tables, double *out, int channels,
        int channels_inner, STRIDES, GEOMETRY),
       (count, map, rois, spans, tables, out, channels, channels_inner, Strides{s_image, s_channel, s_row, s_column}, AXES))
KERNEL(roi_reach, reach, (u32 count, const float *rois, const Span *spans, Reach *reaches, GEOMETRY),
       (u32 count, const double *rois, const Span *spans, Reach *reaches, GEOMETRY), (count, rois, spans, reaches, AXES))
KERNEL(roi_backward_map, backward_map,
       (u32 count, const float *grad, const Reach *reaches, const Span *spans, const float *tables, float *d_map, int channels, int channels_inner, GRAD, GEOMETRY),
       (u32 count, const double *grad, const Reach *reaches, const Span *spans, const double *tables, double *d_map, int channels, int channels_inner, GRAD, GEOMETRY),
       (count, grad, reaches, spans, tables, d_map, channels, channels_inner, g_box, g_channel, g_bin, AXES))
KERNEL(roi_backward_boxes, backward_boxes,
       (u32 count, const float *grad, const float *map, const float *rois, const Span *spans, const float *tables, float *shares,
        int channels, STRIDES, GRAD, GEOMETRY),
       (u32 count, const double *grad, const double *map, const double *rois, const Span *spans, const double *tables,
        double *shares, int channels, STRIDES, GRAD, GEOMETRY),
       (count, grad, map, rois, spans, tables, shares, channels, Strides{s_image, s_channel, s_row, s_column}, g_box, g_channel,
        g_bin, AXES))
KERNEL(roi_add_shares, add_shares, (u32 count, const float *shares, float *d_rois, int each, double scale),
       (u32 count, const double *shares, double *d_rois, int each, double scale), (count, shares, d_rois, each, scale))
