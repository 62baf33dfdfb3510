// Updates of the optimisers, one pass over memory each. The coefficients are the fields of `fused.rs`, converted to the
// parameters' type.
#include "../../kernels.cuh"

template <typename T>
__device__ void blend(u32 count, T *x, const T *g, const T *p, double keep, double add, double decay, int square) {
  FOR_EACH(i, count) {
    T d = g[i] + (T)decay * p[i];
    x[i] = (T)keep * x[i] + (T)add * (square ? d * d : d);
  }
}

template <typename T>
__device__ void subtract_ratio(u32 count, T *p, const T *m, const T *v, double rate, double root, double eps) {
  FOR_EACH(i, count) p[i] -= (T)rate * m[i] / ((T)sqrt((double)v[i]) / (T)root + (T)eps);
}

#define NUMBERS double keep, double add, double decay, int square

KERNEL(blend, blend, (u32 count, float *x, const float *g, const float *p, NUMBERS),
       (u32 count, double *x, const double *g, const double *p, NUMBERS), (count, x, g, p, keep, add, decay, square))
KERNEL(subtract_ratio, subtract_ratio,
       (u32 count, float *p, const float *m, const float *v, double rate, double root, double eps),
       (u32 count, double *p, const double *m, const double *v, double rate, double root, double eps),
       (count, p, m, v, rate, root, eps))
