// Transposes matrices of (rows × columns) to (columns × rows). A block moves a square of 32 × 32 through shared memory, so
// that neighbouring threads read and write neighbours.
#include "../kernels.cuh"

const int SIDE = 32;

template <typename T>
__device__ void reorder(u32 threads, const T *from, T *to, int rows, int columns) {
  __shared__ typename Wide<T>::type square[SIDE][SIDE + 1];
  int down = (rows + SIDE - 1) / SIDE, across = (columns + SIDE - 1) / SIDE;
  int left = blockIdx.x % across * SIDE, top = blockIdx.x / across % down * SIDE;
  i64 matrix = (i64)(blockIdx.x / across / down) * rows * columns;
  int x = threadIdx.x % SIDE, step = blockDim.x / SIDE;
  for (int y = threadIdx.x / SIDE; y < SIDE; y += step)
    if (top + y < rows && left + x < columns) square[y][x] = from[matrix + (i64)(top + y) * columns + left + x];
  __syncthreads();
  for (int y = threadIdx.x / SIDE; y < SIDE; y += step)
    if (left + y < columns && top + x < rows) to[matrix + (i64)(left + y) * rows + top + x] = square[x][y];
}

KERNEL(reorder, reorder, (u32 count, const float *from, float *to, int rows, int columns),
       (u32 count, const double *from, double *to, int rows, int columns), (count, from, to, rows, columns))
KERNEL_BF16(reorder, reorder, (u32 count, const bf16 *from, bf16 *to, int rows, int columns), (count, from, to, rows, columns))
