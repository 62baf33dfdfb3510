//! The transforms of F(4×4, 3×3) (Lavin and Gray, 2016), from the points 0, 1, −1, 2, −2 and ∞.
//!
//! Four outputs of a kernel of three numbers g over six inputs d are `Aᵀ [(G g) ⊙ (Bᵀ d)]`: the transpose of
//! a product of polynomials by evaluation and interpolation. With the finite points p₀ … p₄,
//! - row j of G is (1, p_j, p_j²) / N_j, N_j = Π_{m≠j} (p_j − p_m) = 4, −6, −6, 24, 24; the row of ∞ is (0, 0, 1);
//! - row j of Bᵀ is the coefficients of Π_{m≠j} (x − p_m), constant first: for 0, (x² − 1)(x² − 4) = 4 − 5x² + x⁴;
//!   for ±1, x (x ± 1)(x² − 4); for ±2, x (x² − 1)(x ± 2); for ∞, all five factors: 4x − 5x³ + x⁵;
//! - row i of Aᵀ is p_jⁱ for each j; the column of ∞ is (0, 0, 0, 1).
//!
//! In two dimensions each is applied to the columns and then to the rows.

use pulp::Simd;

/// Outputs along each side of a tile.
pub(super) const OUTPUTS: usize = 4;
/// Inputs along each side of a tile, and points.
pub(super) const SIDE: usize = 6;
/// The kernel's numbers along each side.
pub(super) const TAPS: usize = 3;
/// Products of a tile.
pub(super) const POINTS: usize = SIDE * SIDE;

/// `G g`.
#[inline(always)]
fn kernel_1d<S: Simd>(simd: S, g: [S::f32s; TAPS]) -> [S::f32s; SIDE] {
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

/// `G g Gᵀ`, for each lane: the points of a kernel.
#[inline(always)]
pub(super) fn kernel<S: Simd>(simd: S, g: [[S::f32s; TAPS]; TAPS]) -> [[S::f32s; SIDE]; SIDE] {
    let zero = simd.splat_f32s(0.0);
    let mut half = [[zero; TAPS]; SIDE];
    for v in 0..TAPS {
        let column = kernel_1d(simd, [g[0][v], g[1][v], g[2][v]]);
        for i in 0..SIDE {
            half[i][v] = column[i];
        }
    }
    half.map(|row| kernel_1d(simd, row))
}

/// `Bᵀ d`.
#[inline(always)]
fn input_1d<S: Simd>(simd: S, d: [S::f32s; SIDE]) -> [S::f32s; SIDE] {
    let plus = |a, factor: f32, b| simd.mul_add_e_f32s(simd.splat_f32s(factor), b, a);
    // The even and the odd part of the rows of ±1 and ±2.
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

/// `Aᵀ m`.
#[inline(always)]
fn output_1d<S: Simd>(simd: S, m: [S::f32s; SIDE]) -> [S::f32s; OUTPUTS] {
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

/// `Bᵀ d B` of the 6 × 6 pixels `d`, for each channel. Point ξ goes to `to[ξ · stride..]`.
#[inline(always)]
pub(super) fn input<S: Simd>(simd: S, d: &[&[f32]; POINTS], stride: usize, to: &mut [f32]) {
    let d = d.map(|pixel| S::as_simd_f32s(pixel).0);
    let (to, _) = S::as_mut_simd_f32s(to);
    let stride = stride / S::F32_LANES;
    let zero = simd.splat_f32s(0.0);
    for c in 0..d[0].len() {
        let mut half = [[zero; SIDE]; SIDE];
        for j in 0..SIDE {
            let mut column = [zero; SIDE];
            for i in 0..SIDE {
                column[i] = d[i * SIDE + j][c];
            }
            let column = input_1d(simd, column);
            for i in 0..SIDE {
                half[i][j] = column[i];
            }
        }
        for i in 0..SIDE {
            let row = input_1d(simd, half[i]);
            for j in 0..SIDE {
                to[(i * SIDE + j) * stride + c] = row[j];
            }
        }
    }
}

/// `Aᵀ m A` of the points `m[ξ · stride..]` for vector `c` of channels.
#[inline(always)]
pub(super) fn output<S: Simd>(
    simd: S,
    m: &[S::f32s],
    stride: usize,
    c: usize,
) -> [[S::f32s; OUTPUTS]; OUTPUTS] {
    let zero = simd.splat_f32s(0.0);
    let mut half = [[zero; SIDE]; OUTPUTS];
    for j in 0..SIDE {
        let mut column = [zero; SIDE];
        for i in 0..SIDE {
            column[i] = m[(i * SIDE + j) * stride + c];
        }
        let column = output_1d(simd, column);
        for i in 0..OUTPUTS {
            half[i][j] = column[i];
        }
    }
    let mut tile = [[zero; OUTPUTS]; OUTPUTS];
    for i in 0..OUTPUTS {
        tile[i] = output_1d(simd, half[i]);
    }
    tile
}
