// The weights of PrRoIPool: the mean of the tent function of each pixel over a bin, with its slopes (`weights.rs`).
#include "../roi/weights.cuh"

struct TentMean {
  double mean, d_a, d_b;
};

// The mean of tent(t) over [a, b] and its derivatives in a and b: in f64 and integrated by parts, so that no two near values are
// subtracted.
__device__ TentMean tent_mean(double a, double b) {
  double width = b - a;
  TentMean sum = {0.0, 0.0, 0.0};
  for (int half = 0; half < 2; ++half) {
    double low = half - 1.0, high = half, slope = half == 0 ? 1.0 : -1.0;
    if (width > 0.0) {
      double from = most(a, low), to = least(b, high);
      if (from < to) {
        double share = (to - from) / width, middle = 0.5 * (from + to);
        sum.mean += share * (1.0 - fabs(middle));
        sum.d_a += slope * share * (0.5 * ((b - from) + (b - to)) / width);
        sum.d_b += slope * share * (0.5 * ((from - a) + (to - a)) / width);
      }
    } else if (low <= a && a < high) {
      sum.mean = 1.0 - fabs(a);
      sum.d_a = sum.d_b = 0.5 * slope;
    }
  }
  return sum;
}

// A thread for each row of the tables. `slopes` says whether there are three tables or one.
template <typename T>
__device__ void fill(u32 count, const T *rois, Span *spans, T *tables, double scale, int slopes, Axes g) {
  FOR_EACH(i, count) {
    Row row = row_at(g, i);
    Box box = box_at(rois, row.box, g.images, scale);
    Span span = {0, 0};
    bool has_area = box.start[0] < box.end[0] && box.start[1] < box.end[1];
    if (box.valid && has_area) {
      double start = box.start[row.axis], end = box.end[row.axis], bins = row.bins, width = (end - start) / bins;
      double before = row.bin / bins, after = (row.bin + 1) / bins;
      double a = start + width * row.bin, b = row.bin + 1 == row.bins ? end : start + width * (row.bin + 1);
      span.first = (int)most(least(floor(a), (double)row.size), 0.0);
      span.until = (int)most(least(ceil(b) + 1.0, (double)row.size), 0.0);
      T *to = tables + row_of(g, row.box, row.axis, row.bin);
      i64 table = table_len(g);
      for (int pixel = span.first; pixel < span.until; ++pixel) {
        TentMean tent = tent_mean(a - pixel, b - pixel);
        to[pixel] = (T)tent.mean;
        if (slopes) {
          to[table + pixel] = (T)((1.0 - before) * tent.d_a + (1.0 - after) * tent.d_b);
          to[2 * table + pixel] = (T)(before * tent.d_a + after * tent.d_b);
        }
      }
    }
    spans[i] = span;
  }
}

#define GEOMETRY double scale, int slopes, int boxes, int images, int height, int width, int out_h, int out_w
#define AXES Axes{boxes, images, height, width, out_h, out_w}

KERNEL(prroi_weights, fill, (u32 count, const float *rois, Span *spans, float *tables, GEOMETRY),
       (u32 count, const double *rois, Span *spans, double *tables, GEOMETRY), (count, rois, spans, tables, scale, slopes, AXES))
