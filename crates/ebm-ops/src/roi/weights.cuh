// One-dimensional weights of boxes, which PrRoIPool and RoIAlign fill and `roi.cu` reads.
//
// For box r, axis a (0 is y, 1 is x) and bin b there is a row of numbers by pixel. Only the numbers of the row's span [first,
// until) are written and read. Rows of y come before rows of x. With slopes there are three such tables: the weights, and
// their derivatives in the box's start and end along the axis.
#pragma once
#include "../kernels.cuh"

struct Span {
  int first, until;
};

struct Axes {
  int boxes, images, height, width, out_h, out_w;
};

// Returns the length of one table.
__device__ __forceinline__ i64 table_len(const Axes &g) { return (i64)g.boxes * ((i64)g.out_h * g.height + (i64)g.out_w * g.width); }

// Returns the start of the row of (box, axis, bin) in a table.
__device__ __forceinline__ i64 row_of(const Axes &g, int box, int axis, int bin) {
  if (axis == 0) return ((i64)box * g.out_h + bin) * g.height;
  return (i64)g.boxes * g.out_h * g.height + ((i64)box * g.out_w + bin) * g.width;
}

// Returns the number of the span of (box, axis, bin).
__device__ __forceinline__ i64 span_of(const Axes &g, int box, int axis, int bin) {
  return (i64)box * (g.out_h + g.out_w) + (axis == 0 ? bin : g.out_h + bin);
}

// Box, axis and bin of one row, from the number of a thread.
struct Row {
  int box, axis, bin, bins, size;
};

__device__ __forceinline__ Row row_at(const Axes &g, u32 thread) {
  int each = g.out_h + g.out_w, box = thread / each, within = thread % each;
  bool is_y = within < g.out_h;
  return Row{box, is_y ? 0 : 1, is_y ? within : within - g.out_h, is_y ? g.out_h : g.out_w, is_y ? g.height : g.width};
}

// Box in pixels of the map.
struct Box {
  double start[2], end[2];
  bool valid;
};

__device__ __forceinline__ double far_clamped(double v) { return most(least(v, 1e100), -1e100); }
__device__ __forceinline__ bool is_finite(double v) { return v - v == 0.0; }

// Reads a row (image, x0, y0, x1, y1). A row that is not finite, or names no image of the batch, is not valid: the CPU
// refuses such a row, and here it reads nothing.
template <typename T>
__device__ Box box_at(const T *row, int images, double scale) {
  double image = row[0];
  Box b;
  b.valid = image >= 0.0 && image < (double)images && image == floor(image);
  for (int axis = 0; axis < 2; ++axis) {
    double start = row[axis == 0 ? 2 : 1], end = row[axis == 0 ? 4 : 3];
    b.valid = b.valid && is_finite(start) && is_finite(end);
    b.start[axis] = far_clamped(start * scale);
    b.end[axis] = far_clamped(end * scale);
  }
  return b;
}
