// Weights of PrRoIPool for all boxes on one map.
#include "tent.cuh"

// A thread for each row of the tables. `slopes` says whether there are three tables or one.
template <typename T>
__device__ void fill(u32 count, const T *rois, Span *spans, T *tables, double scale, int slopes, Axes g) {
  FOR_EACH(i, count) {
    Row row = row_at(g, i);
    Box box = box_at(rois + (i64)row.box * 5, g.images, scale);
    Span span = {0, 0};
    if (box.valid && has_area(box)) {
      Bin bin = bin_at(box.start[row.axis], box.end[row.axis], row.bin, row.bins, row.size);
      span = bin.span;
      T *to = tables + row_of(g, row.box, row.axis, row.bin);
      i64 table = table_len(g);
      for (int pixel = span.first; pixel < span.until; ++pixel) {
        Weight weight = weight_of(bin, pixel);
        to[pixel] = (T)weight.value;
        if (slopes) {
          to[table + pixel] = (T)weight.d_start;
          to[2 * table + pixel] = (T)weight.d_end;
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
