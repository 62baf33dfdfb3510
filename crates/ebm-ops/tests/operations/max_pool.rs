//! Max pooling.

use candle_core::{DType, Device, Result as CandleResult, Tensor, Var};
use ebm_ops::nhwc::{from_nchw, max_pool2d, to_nchw};
use ebm_ops::{Error, Result};
use proptest::prop_assert;

use crate::differences::{check_gradients, noise_tensor};
use crate::sizes::{for_all, to};

/// Pools maps (N, C, H, W).
fn first(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    to_nchw(&max_pool2d(&from_nchw(x)?, kernel, stride, padding)?)
}

fn wrapped(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> CandleResult<Tensor> {
    first(x, kernel, stride, padding).map_err(candle_core::Error::wrap)
}

/// Returns the gradient of `sum(first(x) * weights)`.
fn gradient(x: &Tensor, weights: &Tensor, (k, s, p): (usize, usize, usize)) -> Vec<f64> {
    let x = Var::from_tensor(x).unwrap();
    let loss = (first(&x, k, s, p).unwrap() * weights).unwrap().sum_all().unwrap();
    loss.backward().unwrap().get(&x).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

const POOLS: [(usize, usize, usize); 6] = [(3, 2, 1), (1, 2, 0), (2, 2, 0), (3, 1, 1), (3, 3, 0), (2, 3, 1)];

#[test]
fn gradients_match_central_differences() {
    let choices = [to(2), to(3), (3..10).collect(), (3..10).collect(), (0..POOLS.len()).collect()];
    for_all(64, choices, |[n, c, h, w, pool]| {
        let (kernel, stride, padding) = POOLS[pool];
        let x = noise_tensor(&[n, c, h, w], 7).unwrap();
        let checked = check_gradients(|t| wrapped(&t[0], kernel, stride, padding), &[x], 1e-7, 1e-6);
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        Ok(())
    });
}

#[test]
fn padding_never_wins_and_the_first_maximum_takes_the_gradient() {
    // All numbers are negative, so zero padding would win.
    let x = Tensor::full(-1.0f64, (1, 1, 4, 4), &Device::Cpu).unwrap();
    let y = first(&x, 3, 2, 1).unwrap();
    assert_eq!(y.flatten_all().unwrap().to_vec1::<f64>().unwrap(), vec![-1.0; 4]);
    // Windows start at elements (0, 0), (0, 1), (1, 0) and (1, 1) of the image.
    let weights = Tensor::new(&[[[[1.0f64, 2.0], [4.0, 8.0]]]], &Device::Cpu).unwrap();
    let mut expected = vec![0.0; 16];
    (expected[0], expected[1], expected[4], expected[5]) = (1.0, 2.0, 4.0, 8.0);
    assert_eq!(gradient(&x, &weights, (3, 2, 1)), expected);
}

#[test]
fn overlapping_windows_add_their_gradients() {
    let mut values = vec![0.0f64; 25];
    values[12] = 1.0;
    let x = Tensor::from_vec(values, (1, 1, 5, 5), &Device::Cpu).unwrap();
    let weights = Tensor::new(&[[[[1.0f64, 2.0], [4.0, 8.0]]]], &Device::Cpu).unwrap();
    assert_eq!(gradient(&x, &weights, (3, 2, 0))[12], 15.0);
}

#[test]
fn nan_is_passed_on() {
    let x = Tensor::new(&[[[[f32::NAN, 1.0], [2.0, 3.0]]]], &Device::Cpu).unwrap();
    assert!(first(&x, 2, 2, 0).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()[0].is_nan());
}

#[test]
fn candles_gradient_is_wrong_where_ours_is_right() {
    let x = noise_tensor(&[1, 1, 6, 6], 8).unwrap();
    assert!(
        check_gradients(|t| t[0].max_pool2d_with_stride(2, 2), std::slice::from_ref(&x), 1e-7, 1e-3).is_err()
    );
    assert!(
        check_gradients(|t| t[0].max_pool2d_with_stride(3, 2), std::slice::from_ref(&x), 1e-7, 1e-3).is_err()
    );
    check_gradients(|t| wrapped(&t[0], 2, 2, 0), &[x], 1e-7, 1e-6).unwrap();
}

#[test]
fn unusable_arguments_are_refused_with_a_reason() {
    let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let x = t(&[1, 2, 4, 4]);
    for (x, k, s, p, reason) in [
        (&t(&[4, 4]), 2, 2, 0, "(N, H, W, C)"),
        (&t(&[0, 2, 4, 4]), 2, 2, 0, "zero extent"),
        (&x, 0, 2, 0, "positive"),
        (&x, 2, 0, 0, "positive"),
        (&x, 2, 2, 2, "kernel / 2"),
        (&x, 5, 1, 0, "does not fit"),
        (&x.to_dtype(DType::U8).unwrap(), 2, 2, 0, "f32 or f64"),
    ] {
        match max_pool2d(x, k, s, p) {
            Err(Error::Argument { op: "max_pool2d", reason: given }) => {
                assert!(given.contains(reason), "{given}")
            }
            other => panic!("{reason}: {other:?}"),
        }
    }
}

#[test]
fn gradients_with_the_channels_innermost() {
    let x = noise_tensor(&[2, 4, 5, 3], 2).unwrap();
    let pool = |t: &[Tensor]| max_pool2d(&t[0], 3, 2, 1).map_err(candle_core::Error::wrap);
    check_gradients(pool, &[x], 1e-6, 1e-8).unwrap();
}
