// Weights of PrRoIPool along one axis: the mean of the tent function of each pixel over a bin, with its slopes
// (`weights.rs`).
#pragma once
#include "../weights.cuh"

struct TentMean {
  double mean, d_a, d_b;
};

// Returns the mean of tent(t) over [a, b] and its derivatives in a and b, in f64 and integrated by parts, so that no two near
// values are subtracted.
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

__device__ __forceinline__ bool has_area(const Box &box) { return box.start[0] < box.end[0] && box.start[1] < box.end[1]; }

// Bin of a box along an axis: from a to b, and the shares of the box before and after its ends.
struct Bin {
  double a, b, before, after;
  Span span;
};

// Returns bin `bin` of `bins` between start and end, on a map of `size` pixels.
__device__ Bin bin_at(double start, double end, int bin, int bins, int size) {
  double width = (end - start) / bins;
  Bin found;
  found.before = bin / (double)bins;
  found.after = (bin + 1) / (double)bins;
  found.a = start + width * bin;
  found.b = bin + 1 == bins ? end : start + width * (bin + 1);
  found.span.first = (int)most(least(floor(found.a), (double)size), 0.0);
  found.span.until = (int)most(least(ceil(found.b) + 1.0, (double)size), 0.0);
  return found;
}

// Weight of a pixel in a bin, and its derivatives in the box's start and end.
struct Weight {
  double value, d_start, d_end;
};

__device__ Weight weight_of(const Bin &bin, int pixel) {
  TentMean tent = tent_mean(bin.a - pixel, bin.b - pixel);
  return Weight{tent.mean, (1.0 - bin.before) * tent.d_a + (1.0 - bin.after) * tent.d_b,
                bin.before * tent.d_a + bin.after * tent.d_b};
}
