//! SiLU.

use candle_core::{Device, Tensor};
use ebm_ops::silu;

use crate::differences::{check_gradients_there, noise_tensor};

/// `x / (1 + exp(−x))` of the standard library.
#[test]
fn values_are_those_of_the_formula() {
    let x = [-200.0f32, -20.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 20.0, f32::INFINITY, f32::NAN];
    let found = silu(&Tensor::new(&x, &Device::Cpu).unwrap()).unwrap().to_vec1::<f32>().unwrap();
    for (x, found) in x.into_iter().zip(&found).take(8) {
        let expected = f64::from(x) / (1.0 + (-f64::from(x)).exp());
        assert!((f64::from(*found) - expected).abs() <= 3e-7 * expected.abs() + 1e-35, "{x}: {found}");
    }
    assert!(found[8] == f32::INFINITY && found[9].is_nan(), "{found:?}");
}

#[test]
fn gradients_against_differences() {
    let x = (noise_tensor(&[3, 37], 1).unwrap() * 4.0).unwrap();
    check_gradients_there(|t| Ok(silu(&t[0]).unwrap()), &[x], 1e-6, 1e-8).unwrap();
}
