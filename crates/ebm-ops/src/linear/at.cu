// A linear layer that computes one output in each row, and its gradient.
#include "../kernels.cuh"

const int THREADS = 256;

// y[r] = x[r] · w[columns[r]] + bias[columns[r]], with a block for each row. A column that the layer does not have gives NaN.
template <typename T>
__device__ void at(u32, const T *x, const T *w, const T *bias, const u32 *columns, T *y, int depth, u32 outputs) {
  __shared__ T sums[THREADS];
  u32 row = blockIdx.x, column = columns[row], me = threadIdx.x;
  bool is_there = column < outputs;
  T sum = 0;
  for (int i = me; i < depth && is_there; i += THREADS) sum += x[(i64)row * depth + i] * w[(i64)column * depth + i];
  sums[me] = sum;
  __syncthreads();
  for (u32 half = THREADS / 2; half > 0; half /= 2) {
    if (me < half) sums[me] += sums[me + half];
    __syncthreads();
  }
  if (me == 0) y[row] = is_there ? sums[0] + bias[column] : (T)__int_as_float(0x7fc00000);
}

// Gradient in the argument of the ReLU that gave x: w[columns[r]] where x is positive, else 0.
template <typename T>
__device__ void gradient(u32 count, const T *x, const T *w, const u32 *columns, T *d, int depth, u32 outputs) {
  FOR_EACH(i, count) {
    u32 column = columns[i / depth];
    d[i] = x[i] > (T)0 && column < outputs ? w[(i64)column * depth + i % depth] : (T)0;
  }
}

KERNEL(at, at, (u32 count, const float *x, const float *w, const float *bias, const u32 *columns, float *y, int depth, u32 outputs),
       (u32 count, const double *x, const double *w, const double *bias, const u32 *columns, double *y, int depth, u32 outputs),
       (count, x, w, bias, columns, y, depth, outputs))
KERNEL(at_gradient, gradient, (u32 count, const float *x, const float *w, const u32 *columns, float *d, int depth, u32 outputs),
       (u32 count, const double *x, const double *w, const u32 *columns, double *d, int depth, u32 outputs), (count, x, w, columns, d, depth, outputs))
