//! The two networks' activations.

use pulp::Simd;

use crate::layout::Network;

/// What distinguishes the two networks.
pub(super) trait Kind {
    /// Its shape, known to the compiler.
    const NETWORK: Network;
    /// Whether φ' is kept for the way back, or found in the layer's output.
    const KEEPS_SLOPES: bool;
    /// φ(z) and φ'(z).
    fn activate<S: Simd>(simd: S, z: S::f32s) -> (S::f32s, S::f32s);
    /// `g` φ', given the layer's output and what was kept.
    fn back<S: Simd>(simd: S, g: S::f32s, output: S::f32s, slope: S::f32s) -> S::f32s;
    /// φ''(z), from φ(z) and φ'(z).
    fn bend<S: Simd>(simd: S, value: S::f32s, slope: S::f32s) -> S::f32s;
}

pub(super) struct Eccv;
pub(super) struct Bmvc;

impl Kind for Eccv {
    const NETWORK: Network = Network::Eccv;
    const KEEPS_SLOPES: bool = false;

    #[inline(always)]
    fn activate<S: Simd>(simd: S, z: S::f32s) -> (S::f32s, S::f32s) {
        let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
        let positive = simd.greater_than_f32s(z, zero);
        (simd.select_f32s(positive, z, zero), simd.select_f32s(positive, one, zero))
    }

    #[inline(always)]
    fn back<S: Simd>(simd: S, g: S::f32s, output: S::f32s, _: S::f32s) -> S::f32s {
        let zero = simd.splat_f32s(0.0);
        simd.select_f32s(simd.greater_than_f32s(output, zero), g, zero)
    }

    #[inline(always)]
    fn bend<S: Simd>(simd: S, _: S::f32s, _: S::f32s) -> S::f32s {
        simd.splat_f32s(0.0)
    }
}

impl Kind for Bmvc {
    const NETWORK: Network = Network::Bmvc;
    const KEEPS_SLOPES: bool = true;

    #[inline(always)]
    fn activate<S: Simd>(simd: S, z: S::f32s) -> (S::f32s, S::f32s) {
        let value = tanh(simd, z);
        (value, simd.negate_mul_add_f32s(value, value, simd.splat_f32s(1.0)))
    }

    #[inline(always)]
    fn back<S: Simd>(simd: S, g: S::f32s, _: S::f32s, slope: S::f32s) -> S::f32s {
        simd.mul_f32s(g, slope)
    }

    #[inline(always)]
    fn bend<S: Simd>(simd: S, value: S::f32s, slope: S::f32s) -> S::f32s {
        simd.mul_f32s(simd.splat_f32s(-2.0), simd.mul_f32s(value, slope))
    }
}

/// tanh z to a few units in the last place of 1: Lambert's continued fraction at z/4, where seven terms
/// suffice, and twice tanh 2u = 2 tanh u / (1 + tanh² u), in numerators and denominators so that one division
/// is left.
#[inline(always)]
fn tanh<S: Simd>(simd: S, z: S::f32s) -> S::f32s {
    let splat = |value: f32| simd.splat_f32s(value);
    let clamped = simd.max_f32s(simd.min_f32s(z, splat(9.5)), splat(-9.5));
    let u = simd.mul_f32s(clamped, splat(0.25));
    let square = simd.mul_f32s(u, u);
    let horner = |coefficients: [f32; 4]| {
        let mut sum = splat(coefficients[0]);
        for coefficient in &coefficients[1..] {
            sum = simd.mul_add_f32s(sum, square, splat(*coefficient));
        }
        sum
    };
    // Both over 135135, which keeps the squares below small.
    let mut p = simd.mul_f32s(u, horner([1.0 / 135_135.0, 378.0 / 135_135.0, 17_325.0 / 135_135.0, 1.0]));
    let mut q = horner([28.0 / 135_135.0, 3_150.0 / 135_135.0, 62_370.0 / 135_135.0, 1.0]);
    for _ in 0..2 {
        let product = simd.mul_f32s(p, q);
        q = simd.mul_add_f32s(p, p, simd.mul_f32s(q, q));
        p = simd.add_f32s(product, product);
    }
    simd.div_f32s(p, q)
}
