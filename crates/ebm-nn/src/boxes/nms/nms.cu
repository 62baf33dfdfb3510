// Greedy suppression: which boxes overlap, then who goes. Arithmetic as on the CPU: products and sums are rounded one by one.
#include "../../ops/kernels.cuh"

typedef unsigned long long u64;

// Boxes of a word of bits, and threads of a block that walks through a group.
const int WORD = 64, THREADS = 256;

__device__ __forceinline__ float side(float from, float to, float offset) { return most(__fadd_rn(to - from, offset), 0.0f); }

// (row, word) of `words` words a row: bit b says whether box `row` suppresses box 64 · word + b, which comes later in the same group.
// `boxes` are (n, 5): corners and area, by group and then by descending score; `ends` is where each box's group ends. `offset` is 1
// where the last pixel is inside, and `equal` whether an overlap of the threshold itself suppresses.
extern "C" __global__ void nms_overlaps_f32(u32 count, const float *boxes, const int *ends, u64 *overlaps, int words, float threshold,
                                            float offset, int equal) {
  FOR_EACH(i, count) {
    int row = i / words, first = i % words * WORD, end = least(ends[row], first + WORD);
    const float *a = boxes + (i64)row * 5;
    u64 bits = 0;
    for (int column = most(first, row + 1); column < end; ++column) {
      const float *b = boxes + (i64)column * 5;
      float width = side(most(a[0], b[0]), least(a[2], b[2]), offset), height = side(most(a[1], b[1]), least(a[3], b[3]), offset);
      float common = __fmul_rn(width, height), together = __fadd_rn(__fadd_rn(a[4], b[4]), -common);
      float overlap = together > 0.0f && together <= 3.402823466e38f ? common / together : 0.0f;
      if (overlap > threshold || (equal && overlap == threshold)) bits |= (u64)1 << (column - first);
    }
    overlaps[(i64)row * words + i % words] = bits;
  }
}

// A block for each group, boxes `starts[g]` up to `starts[g + 1]`: the best that is left stays, and those that it suppresses go.
// `gone` has a row of `words` for each group, all 0; `kept` (n) becomes 1 or 0.
extern "C" __global__ void nms_walk_f32(u32, const u64 *overlaps, const int *starts, u64 *gone, int *kept, int words) {
  int group = blockIdx.x, start = starts[group], end = starts[group + 1];
  u64 *left = gone + (i64)group * words;
  for (int row = start; row < end; ++row) {
    // Written before the last barrier, so that all threads agree.
    bool stays = !(left[row / WORD] >> (row % WORD) & 1);
    if (threadIdx.x == 0) kept[row] = stays;
    if (stays) {
      __syncthreads();
      for (int word = row / WORD + threadIdx.x; word * WORD < end; word += THREADS) left[word] |= overlaps[(i64)row * words + word];
      __syncthreads();
    }
  }
}
