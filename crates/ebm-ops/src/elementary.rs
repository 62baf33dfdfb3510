//! Elementary functions without branches, for loops that the compiler vectorises.

use super::float::Float;
use super::simd::{Vectorized, arch};

/// Element type with elementary functions: f32 by polynomials, which a vectorised loop computes for several numbers at once,
/// f64 (for tests and comparisons) by the standard library.
pub(crate) trait Elementary: Float {
    /// Runs a loop on numbers of this type. Only that of f32 is compiled for every instruction set.
    fn run(body: impl Vectorized);

    /// Returns exp x.
    fn exp(self) -> Self;

    /// Returns tanh x. NaN stays NaN.
    fn tanh<const FMA: bool>(self) -> Self;

    /// Returns 1 / (1 + exp(−x)), at least 1e-38. NaN stays NaN.
    fn sigmoid<const FMA: bool>(self) -> Self;

    /// Returns ln(1 + x) of x ≥ 0, at most ln 1e37. NaN stays NaN.
    fn ln_one_plus<const FMA: bool>(self) -> Self;
}

impl Elementary for f64 {
    fn run(body: impl Vectorized) {
        body.run::<false>();
    }

    fn exp(self) -> Self {
        Self::exp(self)
    }

    fn tanh<const FMA: bool>(self) -> Self {
        Self::tanh(self)
    }

    fn sigmoid<const FMA: bool>(self) -> Self {
        1.0 / (1.0 + Self::exp(-self))
    }

    fn ln_one_plus<const FMA: bool>(self) -> Self {
        self.ln_1p()
    }
}

/// ln 2 as a sum whose first part has few bits, so that small multiples of it are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// 1.5 · 2^23: a small number added to it is rounded to a whole one, which is in its lowest bits.
const ROUNDING: f32 = 12_582_912.0;
/// Coefficients `1/2!` to `1/7!` of exp.
const EXP: [f32; 6] = [0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];

/// Returns `c[0] + c[1] x + …`.
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[N - 1];
    for n in (0..N - 1).rev() {
        sum = c[n].add_product::<FMA>(sum, x);
    }
    sum
}

/// Returns p = 2^k and q with `exp x = p (1 + q)`, for x between −87 and 0.
#[inline(always)]
fn exp_parts<const FMA: bool>(x: f32) -> [f32; 2] {
    // x = k ln 2 + r.
    let shifted = ROUNDING.add_product::<FMA>(x, std::f32::consts::LOG2_E);
    let k = shifted - ROUNDING;
    let r = x.add_product::<FMA>(-k, LN_2[0]).add_product::<FMA>(-k, LN_2[1]);
    let q = r.add_product::<FMA>(r * r, polynomial::<FMA, 6>(r, EXP));
    [f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits())), q]
}

impl Elementary for f32 {
    fn run(body: impl Vectorized) {
        body.dispatch(arch());
    }

    fn exp(self) -> Self {
        Self::exp(self)
    }

    /// With `e = exp(−2|x|) − 1`, `tanh |x| = −e / (2 + e)`; near 0 no digits of e cancel.
    #[inline(always)]
    fn tanh<const FMA: bool>(self) -> Self {
        // From 10 on the result is ±1.
        let size = if self.abs() > 10.0 { 10.0 } else { self.abs() };
        let [p, q] = exp_parts::<FMA>(-2.0 * size);
        let e = (p - 1.0).add_product::<FMA>(p, q);
        (-e / (2.0 + e)).copysign(self)
    }

    #[inline(always)]
    fn sigmoid<const FMA: bool>(self) -> Self {
        let size = if self.abs() > 87.0 { 87.0 } else { self.abs() };
        let [p, q] = exp_parts::<FMA>(-size);
        let e = p.add_product::<FMA>(p, q);
        (if self < 0.0 { e } else { 1.0 }) / (1.0 + e)
    }

    /// With `1 + x = 2^k m` and `s = (m − 1)/(m + 1)`, the result is `k ln 2 + 2 (s + s³/3 + s⁵/5 + …)`.
    #[inline(always)]
    fn ln_one_plus<const FMA: bool>(self) -> Self {
        let x = if self > 1e37 { 1e37 } else { self };
        // m lies between √½ and √2.
        let bits = (1.0 + x).to_bits().wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits());
        let k = (bits.cast_signed() >> 23) as Self;
        let m = Self::from_bits((bits & 0x7f_ffff) + std::f32::consts::FRAC_1_SQRT_2.to_bits());
        let s = (m - 1.0) / (m + 1.0);
        let series = polynomial::<FMA, 5>(s * s, [2.0, 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0]);
        let low = (k * LN_2[1]).add_product::<FMA>(s, series);
        // The bits of NaN are those of some number, but NaN times 0 is NaN.
        (k * LN_2[0] + low).add_product::<FMA>(x, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f32, x: f32, expected: f64) {
        let bound = 4.0 * f64::from(f32::EPSILON) * expected.abs() + 1e-37;
        assert!((f64::from(found) - expected).abs() <= bound, "{x}: {found} not {expected}");
    }

    /// The standard library's functions of f64 are right to the last digit of f32.
    #[test]
    fn functions_are_right_to_four_units_in_the_last_place() {
        for step in 0..=40_000u16 {
            // From 1e-20 to 1e20.
            let size = 10f32.powf(f32::from(step) * 1e-3 - 20.0);
            for x in [size, -size] {
                let wide = f64::from(x);
                assert_close(Elementary::tanh::<true>(x), x, wide.tanh());
                assert_close(Elementary::tanh::<false>(x), x, wide.tanh());
                assert_close(x.sigmoid::<true>(), x, wide.sigmoid::<true>());
                assert_close(x.sigmoid::<false>(), x, wide.sigmoid::<false>());
            }
            // As 1 + x is rounded before its logarithm is taken, small ones have an absolute error.
            let expected = f64::from(1.0 + size).ln() + 1.0;
            assert_close(size.ln_one_plus::<true>() + 1.0, size, expected);
            assert_close(size.ln_one_plus::<false>() + 1.0, size, expected);
        }
    }

    #[test]
    fn ends_and_nan() {
        assert_eq!(
            [0.0, -0.0, f32::INFINITY, -1e30].map(<f32 as Elementary>::tanh::<true>),
            [0.0, -0.0, 1.0, -1.0]
        );
        assert_eq!([0.0, f32::INFINITY].map(f32::sigmoid::<true>), [0.5, 1.0]);
        assert!(f32::NEG_INFINITY.sigmoid::<true>() < 1e-37);
        assert_eq!(0f32.ln_one_plus::<true>(), 0.0);
        assert_close(f32::INFINITY.ln_one_plus::<true>(), f32::INFINITY, 1e37f64.ln());
        let functions = [<f32 as Elementary>::tanh::<true>, f32::sigmoid::<true>, f32::ln_one_plus::<true>];
        assert!(functions.iter().all(|function| function(f32::NAN).is_nan()));
    }
}
