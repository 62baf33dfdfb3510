//! Two neighbours of the depth as bf16 in the place of one f32. This takes half the memory, and AVX-512 BF16 computes twice
//! the products in the same time. Sums are f32.
//!
//! The lower half of a pair holds the first number.

use pulp::{Simd, WithSimd};

use super::prefetch::Prefetch;
use super::product::Strided;
use super::tile::{Destination, VECTORS, by_rows};
#[cfg(target_arch = "x86_64")]
use crate::simd::has_bf16;

/// Returns the pair of two numbers.
#[inline(always)]
pub(crate) fn pair(first: f32, second: f32) -> f32 {
    f32::from_bits(upper(second) << 16 | upper(first))
}

/// Returns the two numbers of a pair.
#[inline(always)]
pub(crate) fn halves(pair: f32) -> [f32; 2] {
    let bits = pair.to_bits();
    [f32::from_bits(bits << 16), f32::from_bits(bits & UPPER)]
}

/// Mask of the half of a pair that holds its second number.
const UPPER: u32 = 0xffff_0000;

/// Returns the upper half of x, rounded to the nearest, ties to even. NaN stays NaN.
#[inline(always)]
fn upper(x: f32) -> u32 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    (if x.is_nan() { bits | 0x0040_0000 } else { nearest }) >> 16
}

/// Rounds a row to pairs. If its length is odd, the second number of the last pair is 0.
#[inline(always)]
pub(crate) fn round(row: &[f32], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_bf16() {
        #[expect(
            unsafe_code,
            reason = "calling a function compiled for an instruction set found at run time"
        )]
        // SAFETY: the processor has these instructions.
        unsafe {
            avx512::round(row, to);
        }
        return;
    }
    round_here(row, to);
}

#[inline(always)]
fn round_here(row: &[f32], to: &mut [f32]) {
    for (to, numbers) in to.iter_mut().zip(row.chunks(2)) {
        *to = pair(numbers[0], numbers.get(1).copied().unwrap_or_default());
    }
}

/// Computes `A · panel` for `count` rows of A, at most [`most_rows`](super::tile::most_rows), all in pairs. Each step of the
/// depth is a step of `prefetch`.
#[inline(always)]
pub(super) fn multiply<S: Simd>(
    simd: S,
    a: Strided<'_, f32>,
    count: usize,
    panel: &[f32],
    prefetch: Prefetch,
    destination: Destination<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    if has_bf16() && S::F32_LANES == avx512::LANES {
        by_rows!(S, count, ROWS => {
            #[expect(unsafe_code, reason = "calling a function compiled for an instruction set found at run time")]
            // SAFETY: the processor has these instructions.
            unsafe {
                avx512::tile::<ROWS>(a, panel, prefetch, destination);
            }
        });
        return;
    }
    by_rows!(S, count, ROWS => simd.vectorize(Tile::<ROWS> { a, panel, prefetch, destination }));
}

struct Tile<'a, const ROWS: usize> {
    a: Strided<'a, f32>,
    panel: &'a [f32],
    prefetch: Prefetch,
    destination: Destination<'a>,
}

impl<const ROWS: usize> WithSimd for Tile<'_, ROWS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Strided { data, stride } = self.a;
        let (half, mask) = (simd.splat_u32s(16), simd.splat_u32s(UPPER));
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        let (panel, _) = S::as_simd_f32s(self.panel).0.as_chunks::<VECTORS>();
        for (k, columns) in panel.iter().enumerate() {
            self.prefetch.step();
            let columns = columns.map(|columns| {
                let bits = simd.transmute_u32s_f32s(columns);
                let [first, second] = [simd.wrapping_dyn_shl_u32s(bits, half), simd.and_u32s(bits, mask)];
                [first, second].map(|bits| simd.transmute_f32s_u32s(bits))
            });
            for i in 0..ROWS {
                let [first, second] = halves(data[i * stride + k]).map(|number| simd.splat_f32s(number));
                for v in 0..VECTORS {
                    let sum = simd.mul_add_e_f32s(first, columns[v][0], sums[i][v]);
                    sums[i][v] = simd.mul_add_e_f32s(second, columns[v][1], sum);
                }
            }
        }
        let (out, _) = S::as_mut_simd_f32s(self.destination.sums).0.as_chunks_mut::<VECTORS>();
        // Vector by vector: a copy of the array as a whole would keep it in memory instead of registers.
        for (out, row) in out.iter_mut().zip(sums) {
            for (out, sum) in out.iter_mut().zip(row) {
                *out = if self.destination.add { simd.add_f32s(*out, sum) } else { sum };
            }
        }
    }
}

/// Loops with the instructions for pairs.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512, __m512bh, _mm512_add_ps, _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_set1_ps,
        _mm512_setzero_ps,
    };
    use std::hint::black_box;
    use std::mem::transmute;

    use super::{Destination, Prefetch, Strided, VECTORS, round_here};

    /// Numbers in a vector.
    pub(super) const LANES: usize = 16;

    #[expect(unsafe_code, reason = "vectors are read as numbers of the same bits")]
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn round(row: &[f32], to: &mut [f32]) {
        let (rows, rest) = row.as_chunks::<{ 2 * LANES }>();
        let (whole, last) = to.split_at_mut(to.len().min(rows.len() * LANES));
        for (to, numbers) in whole.as_chunks_mut::<LANES>().0.iter_mut().zip(rows) {
            // SAFETY: 32 numbers are two vectors. Their pairs have as many bits as 16 numbers, and all bits are numbers.
            unsafe {
                let [first, second] = transmute::<[f32; 2 * LANES], [__m512; 2]>(*numbers);
                *to = transmute::<__m512bh, [f32; LANES]>(_mm512_cvtne2ps_pbh(second, first));
            }
        }
        round_here(rest, last);
    }

    #[expect(unsafe_code, reason = "vectors are read as numbers of the same bits")]
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn tile<const ROWS: usize>(
        a: Strided<'_, f32>,
        panel: &[f32],
        mut prefetch: Prefetch,
        destination: Destination<'_>,
    ) {
        let (panel, _) = panel.as_chunks::<{ VECTORS * LANES }>();
        let mut rows = [a.data; ROWS];
        for (i, row) in rows.iter_mut().enumerate() {
            // Opaque to the compiler, which would otherwise compute each address from the first in every step.
            *row = &black_box(&a.data[i * a.stride..])[..panel.len()];
        }
        let mut all = [[_mm512_setzero_ps(); VECTORS]; ROWS];
        for (k, columns) in panel.iter().enumerate() {
            prefetch.step();
            // SAFETY: the numbers of two vectors are these vectors, and all bits are pairs.
            let columns = unsafe { transmute::<[f32; VECTORS * LANES], [__m512bh; VECTORS]>(*columns) };
            for i in 0..ROWS {
                // SAFETY: as above.
                let number = unsafe { transmute::<__m512, __m512bh>(_mm512_set1_ps(rows[i][k])) };
                for v in 0..VECTORS {
                    all[i][v] = _mm512_dpbf16_ps(all[i][v], number, columns[v]);
                }
            }
        }
        for (out, row) in destination.sums.as_chunks_mut::<LANES>().0.chunks_exact_mut(VECTORS).zip(all) {
            for (out, sum) in out.iter_mut().zip(row) {
                // SAFETY: a vector and its numbers have the same bits.
                unsafe {
                    let before = transmute::<[f32; LANES], __m512>(*out);
                    let sum = if destination.add { _mm512_add_ps(before, sum) } else { sum };
                    *out = transmute::<__m512, [f32; LANES]>(sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest_with_eight_bits() {
        let ulp = f32::EPSILON * 65536.0;
        let cases = [
            (1.0, 1.0),
            (1.0 + 0.4 * ulp, 1.0),
            (1.0 + 0.6 * ulp, 1.0 + ulp),
            // Ties go to the even number.
            (1.0 + 0.5 * ulp, 1.0),
            (1.0 + 1.5 * ulp, 1.0 + 2.0 * ulp),
            (-5.67, -5.65625),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (0.0, 0.0),
        ];
        let mut row: Vec<f32> = cases.iter().map(|(x, _)| *x).cycle().take(99).collect();
        row[70] = f32::NAN;
        row[71] = f32::from_bits(0x7f80_0001);
        for round in [round, round_here] {
            let mut pairs = [f32::NAN; 50];
            round(&row, &mut pairs);
            let found: Vec<f32> = pairs.into_iter().flat_map(halves).collect();
            for (i, found) in found.iter().enumerate().take(99) {
                let expected = cases[i % cases.len()].1;
                assert!(
                    if matches!(i, 70 | 71) { found.is_nan() } else { *found == expected },
                    "{i}: {found}"
                );
            }
            assert_eq!(found[99], 0.0);
        }
    }
}
