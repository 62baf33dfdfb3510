//! Sums of the taps of a convolution.

use candle_core::{DType, Tensor};
use ebm_ops::heads::{spread_taps, sum_taps};

use crate::differences::{check_gradients, noise_tensor};

#[test]
fn with_the_products_it_is_a_convolution() {
    for kernel in [1, 3, 4] {
        let (x, filter) =
            (noise_tensor(&[2, 5, 6, 3], 1).unwrap(), noise_tensor(&[3, kernel * kernel], 2).unwrap());
        let products = x.reshape((60, 3)).unwrap().matmul(&filter).unwrap();
        let y = sum_taps(&products.reshape((2, 5, 6, kernel * kernel)).unwrap()).unwrap();
        let filter = filter.reshape((1, 3, kernel, kernel)).unwrap();
        let expected = x
            .permute((0, 3, 1, 2))
            .unwrap()
            .conv2d(&filter, kernel / 2, 1, 1, 1)
            .unwrap()
            .squeeze(1)
            .unwrap();
        // An even kernel gives one more row and column.
        let expected = expected.narrow(1, 0, 5).unwrap().narrow(2, 0, 6).unwrap();
        let error = (y - expected).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
        assert!(error < 1e-14, "{kernel}: {error}");
    }
}

#[test]
fn both_gradients_are_those_of_finite_differences() {
    let taps = |x: &[Tensor]| sum_taps(&x[0]).map_err(candle_core::Error::wrap);
    check_gradients(taps, &[noise_tensor(&[2, 3, 4, 16], 3).unwrap()], 1e-5, 1e-8).unwrap();
    let spread = |x: &[Tensor]| spread_taps(&x[0], 4).map_err(candle_core::Error::wrap);
    check_gradients(spread, &[noise_tensor(&[2, 3, 4], 4).unwrap()], 1e-5, 1e-8).unwrap();
}

#[test]
fn what_is_no_set_of_taps_is_refused() {
    let x = noise_tensor(&[2, 3, 4, 5], 1).unwrap();
    assert!(sum_taps(&x).unwrap_err().to_string().contains("5 taps"));
    assert!(sum_taps(&x.narrow(3, 0, 4).unwrap().to_dtype(DType::U32).unwrap()).is_err());
    assert!(spread_taps(&x, 4).is_err());
}
