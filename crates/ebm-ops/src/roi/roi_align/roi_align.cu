// Weights of RoIAlign: linear interpolation at the samples of a bin (`roi_align.rs`).
#include "../weights.cuh"

// A thread for each row of the table.
template <typename T>
__device__ void fill(u32 count, const T *rois, Span *spans, T *table, double scale, int sampling_ratio, int aligned, Axes g) {
  FOR_EACH(i, count) {
    Row row = row_at(g, i);
    Box box = box_at(rois + (i64)row.box * 5, g.images, scale);
    Span span = {0, 0};
    if (box.valid && row.size > 0) {
      double shift = aligned ? 0.5 : 0.0, start = box.start[row.axis] - shift, size = row.size;
      double length = box.end[row.axis] - shift - start;
      if (!aligned) length = most(length, 1.0);
      double bin_length = length / row.bins;
      double grid = sampling_ratio > 0 ? (double)sampling_ratio : most(ceil(bin_length), 0.0);
      double step = bin_length / grid, origin = start + row.bin * bin_length;
      // If a grid reaches far outside, only its samples in [-1, size] are visited.
      double skipped = 0.0, visited = grid;
      if (sampling_ratio <= 0 && grid > 0.0) {
        skipped = most(least(floor((-2.0 - origin) / step), grid), 0.0);
        visited = least(grid - skipped, 2.0 * size + 8.0);
      }
      // First and last sample, between which all others lie.
      double first = origin + (skipped + 0.5) * step, last = origin + (skipped + visited - 0.5) * step;
      double low = most(least(first, last), -1.0), high = least(most(first, last), size);
      if (visited >= 1.0 && low <= high) {
        span.first = (int)most(least(low, size - 1.0), 0.0);
        span.until = (int)least(most(least(high, size - 1.0), 0.0) + 2.0, size);
        T *to = table + row_of(g, row.box, row.axis, row.bin);
        for (int pixel = span.first; pixel < span.until; ++pixel) to[pixel] = (T)0;
        for (double sample = 0.0; sample < visited; sample += 1.0) {
          double position = origin + (skipped + sample + 0.5) * step;
          if (!(position >= -1.0 && position <= size)) continue;
          position = most(least(position, size - 1.0), 0.0);
          int pixel = (int)position;
          double fraction = position - pixel;
          to[pixel] += (T)((1.0 - fraction) / grid);
          if (fraction > 0.0) to[pixel + 1] += (T)(fraction / grid);
        }
      }
    }
    spans[i] = span;
  }
}

#define GEOMETRY \
  double scale, int sampling_ratio, int aligned, int boxes, int images, int height, int width, int out_h, int out_w
#define AXES Axes{boxes, images, height, width, out_h, out_w}

KERNEL(roi_align_weights, fill, (u32 count, const float *rois, Span *spans, float *table, GEOMETRY),
       (u32 count, const double *rois, Span *spans, double *table, GEOMETRY),
       (count, rois, spans, table, scale, sampling_ratio, aligned, AXES))
