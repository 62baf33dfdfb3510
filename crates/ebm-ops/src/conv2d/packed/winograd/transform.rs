//! The transforms of F(4×4, 3×3) and F(2×2, 3×3) (Lavin and Gray, 2016), from the points 0, 1, −1, 2, −2 and ∞, and from 0,
//! 1, −1 and ∞.
//!
//! The outputs of a kernel of three numbers g over the inputs d are `Aᵀ [(G g) ⊙ (Bᵀ d)]`: the transpose of a product
//! of polynomials by evaluation and interpolation. With the finite points p₀, p₁, …
//! - row j of G is (1, p_j, p_j²) / N_j, N_j = Π_{m≠j} (p_j − p_m) = 4, −6, −6, 24, 24, or −1, 2, 2; the row of ∞ is
//!   (0, 0, 1);
//! - row j of Bᵀ is the coefficients of Π_{m≠j} (x − p_m), constant first: of four outputs for 0, (x² − 1)(x² − 4) =
//!   4 − 5x² + x⁴; for ±1, x (x ± 1)(x² − 4); for ±2, x (x² − 1)(x ± 2); for ∞, all five factors: 4x − 5x³ + x⁵; of two
//!   outputs for 0, x² − 1; for ±1, x (x ± 1); for ∞, x³ − x;
//! - row i of Aᵀ is p_jⁱ for each j; the column of ∞ is (0, …, 0, 1).
//!
//! In two dimensions each is applied to the columns and then to the rows.

use pulp::Simd;

/// Numbers along each side of the kernel.
pub(super) const TAPS: usize = 3;

/// Transforms along a line for `OUTPUTS` outputs of `SIDE` inputs. `SIDE` is also the number of points.
pub(super) trait Lines<const OUTPUTS: usize, const SIDE: usize> {
    /// Returns `G g`.
    fn kernel<S: Simd>(simd: S, g: [S::f32s; TAPS]) -> [S::f32s; SIDE];

    /// Returns `Bᵀ d`.
    fn input<S: Simd>(simd: S, d: [S::f32s; SIDE]) -> [S::f32s; SIDE];

    /// Returns `Aᵀ m`.
    fn output<S: Simd>(simd: S, m: [S::f32s; SIDE]) -> [S::f32s; OUTPUTS];
}

/// Transforms of both sizes.
pub(super) struct Transform;

impl Lines<4, 6> for Transform {
    #[inline(always)]
    fn kernel<S: Simd>(simd: S, g: [S::f32s; TAPS]) -> [S::f32s; 6] {
        let times = |factor: f32, a| simd.mul_f32s(simd.splat_f32s(factor), a);
        let (ends, far) = (simd.add_f32s(g[0], g[2]), simd.mul_add_f32s(simd.splat_f32s(4.0), g[2], g[0]));
        let twice = simd.add_f32s(g[1], g[1]);
        [
            times(1.0 / 4.0, g[0]),
            times(-1.0 / 6.0, simd.add_f32s(ends, g[1])),
            times(-1.0 / 6.0, simd.sub_f32s(ends, g[1])),
            times(1.0 / 24.0, simd.add_f32s(far, twice)),
            times(1.0 / 24.0, simd.sub_f32s(far, twice)),
            g[2],
        ]
    }

    #[inline(always)]
    fn input<S: Simd>(simd: S, d: [S::f32s; 6]) -> [S::f32s; 6] {
        let plus = |a, factor: f32, b| simd.mul_add_e_f32s(simd.splat_f32s(factor), b, a);
        // Even and odd part of the rows of ±1 and ±2.
        let (even_1, odd_1) = (plus(d[4], -4.0, d[2]), plus(d[3], -4.0, d[1]));
        let even_2 = simd.sub_f32s(d[4], d[2]);
        let half_odd_2 = simd.sub_f32s(d[3], d[1]);
        [
            plus(plus(d[4], -5.0, d[2]), 4.0, d[0]),
            simd.add_f32s(even_1, odd_1),
            simd.sub_f32s(even_1, odd_1),
            plus(even_2, 2.0, half_odd_2),
            plus(even_2, -2.0, half_odd_2),
            plus(plus(d[5], -5.0, d[3]), 4.0, d[1]),
        ]
    }

    #[inline(always)]
    fn output<S: Simd>(simd: S, m: [S::f32s; 6]) -> [S::f32s; 4] {
        let plus = |a, factor: f32, b| simd.mul_add_e_f32s(simd.splat_f32s(factor), b, a);
        let (sum_1, difference_1) = (simd.add_f32s(m[1], m[2]), simd.sub_f32s(m[1], m[2]));
        let (sum_2, difference_2) = (simd.add_f32s(m[3], m[4]), simd.sub_f32s(m[3], m[4]));
        [
            simd.add_f32s(m[0], simd.add_f32s(sum_1, sum_2)),
            plus(difference_1, 2.0, difference_2),
            plus(sum_1, 4.0, sum_2),
            simd.add_f32s(plus(difference_1, 8.0, difference_2), m[5]),
        ]
    }
}

impl Lines<2, 4> for Transform {
    #[inline(always)]
    fn kernel<S: Simd>(simd: S, g: [S::f32s; TAPS]) -> [S::f32s; 4] {
        let half = |a| simd.mul_f32s(simd.splat_f32s(0.5), a);
        let ends = simd.add_f32s(g[0], g[2]);
        let sums = [simd.add_f32s(ends, g[1]), simd.sub_f32s(ends, g[1])];
        [simd.neg_f32s(g[0]), half(sums[0]), half(sums[1]), g[2]]
    }

    #[inline(always)]
    fn input<S: Simd>(simd: S, d: [S::f32s; 4]) -> [S::f32s; 4] {
        [
            simd.sub_f32s(d[2], d[0]),
            simd.add_f32s(d[2], d[1]),
            simd.sub_f32s(d[2], d[1]),
            simd.sub_f32s(d[3], d[1]),
        ]
    }

    #[inline(always)]
    fn output<S: Simd>(simd: S, m: [S::f32s; 4]) -> [S::f32s; 2] {
        let (sum, difference) = (simd.add_f32s(m[1], m[2]), simd.sub_f32s(m[1], m[2]));
        [simd.add_f32s(m[0], sum), simd.add_f32s(difference, m[3])]
    }
}

/// Returns `G g Gᵀ`, the points of a kernel, for each lane.
#[inline(always)]
pub(super) fn kernel<S: Simd, const O: usize, const N: usize>(
    simd: S,
    g: [[S::f32s; TAPS]; TAPS],
) -> [[S::f32s; N]; N]
where
    Transform: Lines<O, N>,
{
    let zero = simd.splat_f32s(0.0);
    let mut half = [[zero; TAPS]; N];
    for v in 0..TAPS {
        let column = Transform::kernel(simd, [g[0][v], g[1][v], g[2][v]]);
        for i in 0..N {
            half[i][v] = column[i];
        }
    }
    half.map(|row| Transform::kernel(simd, row))
}

/// Computes `Bᵀ d B` of the pixels `d`, for each channel. Point ξ goes to `to[ξ · stride..]`.
#[inline(always)]
pub(super) fn input<S: Simd, const O: usize, const N: usize>(
    simd: S,
    d: &[[&[f32]; N]; N],
    stride: usize,
    to: &mut [f32],
) where
    Transform: Lines<O, N>,
{
    let d = d.map(|row| row.map(|pixel| S::as_simd_f32s(pixel).0));
    let (to, _) = S::as_mut_simd_f32s(to);
    let stride = stride / S::F32_LANES;
    let zero = simd.splat_f32s(0.0);
    for c in 0..d[0][0].len() {
        let mut half = [[zero; N]; N];
        for j in 0..N {
            let mut column = [zero; N];
            for i in 0..N {
                column[i] = d[i][j][c];
            }
            let column = Transform::input(simd, column);
            for i in 0..N {
                half[i][j] = column[i];
            }
        }
        for i in 0..N {
            let row = Transform::input(simd, half[i]);
            for j in 0..N {
                to[(i * N + j) * stride + c] = row[j];
            }
        }
    }
}

/// Returns `Aᵀ m A` of the points `m[ξ · stride..]` for vector `c` of channels.
#[inline(always)]
pub(super) fn output<S: Simd, const O: usize, const N: usize>(
    simd: S,
    m: &[S::f32s],
    stride: usize,
    c: usize,
) -> [[S::f32s; O]; O]
where
    Transform: Lines<O, N>,
{
    let zero = simd.splat_f32s(0.0);
    let mut half = [[zero; N]; O];
    for j in 0..N {
        let mut column = [zero; N];
        for i in 0..N {
            column[i] = m[(i * N + j) * stride + c];
        }
        let column = Transform::output(simd, column);
        for i in 0..O {
            half[i][j] = column[i];
        }
    }
    let mut tile = [[zero; O]; O];
    for i in 0..O {
        tile[i] = Transform::output(simd, half[i]);
    }
    tile
}
