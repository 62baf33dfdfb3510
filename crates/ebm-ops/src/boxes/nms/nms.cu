// Greedy suppression in two steps: find the boxes that overlap, then remove boxes. As on the CPU, products and sums are
// rounded one by one.
#include "../../kernels.cuh"

typedef unsigned long long u64;

// Boxes in a word of bits, threads of a block that walks through a group, and threads of a warp.
const int WORD = 64, THREADS = 256, LANES = 32;

__device__ __forceinline__ float side(float from, float to, float offset) { return most(__fadd_rn(to - from, offset), 0.0f); }

// Computes (row, word) of `words` words a row: bit b says whether box `row` suppresses box 64 · word + b, which comes later
// in the same group. `boxes` are (n, 5): corners and area, by group and then by descending score. `ends` has the end of each
// box's group. `offset` is 1 if the last pixel is inside. `equal` says whether an overlap equal to the threshold suppresses.
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

// Returns the bits that are set in any lane of a warp.
__device__ __forceinline__ u64 of_any_lane(u64 bits) {
  for (int far = 16; far > 0; far /= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, far);
  return bits;
}

// One block for each group, boxes `starts[g]` up to `starts[g + 1]`. The best remaining box stays, and removes those that it
// suppresses. `gone` has a row of `words` for each group, all 0. `kept` (n) becomes 1 or 0.
//
// The rows of one word are handled at a time. One thread walks through the square of bits between these rows. Then each warp
// gathers, for one of the later words, the boxes that the staying rows suppress.
extern "C" __global__ void nms_walk_f32(u32, const u64 *overlaps, const int *starts, u64 *gone, int *kept, int words) {
  __shared__ u64 square[WORD], staying;
  int group = blockIdx.x, start = starts[group], end = starts[group + 1], me = threadIdx.x, warp = me / LANES, lane = me % LANES;
  u64 *left = gone + (i64)group * words;
  for (int word = start / WORD; word * WORD < end; ++word) {
    int first = word * WORD, row = first + me;
    bool is_mine = me < WORD && row >= start && row < end;
    if (me < WORD) square[me] = is_mine ? overlaps[(i64)row * words + word] : 0;
    __syncthreads();
    if (me == 0) {
      u64 out = left[word], stay = 0;
      for (int bit = most(start - first, 0); bit < WORD && first + bit < end; ++bit) {
        if (out >> bit & 1) continue;
        stay |= (u64)1 << bit;
        out |= square[bit];
      }
      staying = stay;
    }
    __syncthreads();
    u64 stay = staying;
    if (is_mine) kept[row] = stay >> me & 1;
    for (int others = word + 1; others * WORD < end; others += THREADS / LANES) {
      int other = others + warp;
      u64 bits = 0;
      for (int bit = lane; bit < WORD && other < words; bit += LANES)
        if (stay >> bit & 1) bits |= overlaps[(i64)(first + bit) * words + other];
      bits = of_any_lane(bits);
      if (lane == 0 && other < words) left[other] |= bits;
    }
    __syncthreads();
  }
}
