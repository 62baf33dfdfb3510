//! Up-sampling by the nearest pixel.

use candle_core::{DType, Device, Result as CandleResult, Tensor};
use ebm_ops::Error;
use ebm_ops::nhwc::{from_nchw, to_nchw, upsample_nearest2d};
use proptest::prop_assert;
use std::ops::Add;

use crate::differences::{check_gradients, noise_tensor};
use crate::sizes::{for_all, to};

/// Resizes maps (N, C, H, W).
fn wrapped(x: &Tensor, out_h: usize, out_w: usize) -> CandleResult<Tensor> {
    let y = from_nchw(x).and_then(|x| upsample_nearest2d(&x, out_h, out_w));
    y.and_then(|y| to_nchw(&y)).map_err(candle_core::Error::wrap)
}

/// Returns the row that each row of a map resized from `from` to `to` rows shows.
fn sources(from: usize, to: usize) -> Vec<usize> {
    let rows: Vec<f64> = (0..from).map(|row| row as f64).collect();
    let y = wrapped(&Tensor::from_vec(rows, (1, 1, from, 1), &Device::Cpu).unwrap(), to, 1).unwrap();
    y.flatten_all().unwrap().to_vec1::<f64>().unwrap().into_iter().map(|row| row as usize).collect()
}

#[test]
fn repeats_and_drops_pixels() {
    assert_eq!(sources(3, 6), [0, 0, 1, 1, 2, 2]);
    assert_eq!(sources(3, 5), [0, 0, 1, 1, 2]);
    assert_eq!(sources(5, 3), [0, 1, 3]);
    assert_eq!(sources(1, 4), [0; 4]);
    // PyTorch rounds in f32. The exact value of 7 * 62 / 14 is 31.
    assert_eq!(sources(62, 14)[7], 30);
    let x = Tensor::new(&[[[[1.0f32, 2.0]]]], &Device::Cpu).unwrap();
    let y = wrapped(&x, 2, 3).unwrap();
    assert_eq!(y.dims(), [1, 1, 2, 3]);
    assert_eq!(y.flatten_all().unwrap().to_vec1::<f32>().unwrap(), [1.0, 1.0, 2.0, 1.0, 1.0, 2.0]);
}

#[test]
fn gradients_match_central_differences() {
    let choices = [to(2), to(3), to(5), to(5), to(11), to(11)];
    for_all(48, choices, |[n, c, h, w, out_h, out_w]| {
        let x = noise_tensor(&[n, c, h, w], 9).unwrap();
        let checked = check_gradients(|t| wrapped(&t[0], out_h, out_w), &[x], 1e-4, 1e-8);
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        Ok(())
    });
}

#[test]
fn a_map_with_the_channels_innermost_is_read_in_place() {
    let x = noise_tensor(&[2, 5, 7, 3], 1).unwrap().permute((0, 3, 1, 2)).unwrap();
    let run = |x: &Tensor| wrapped(x, 9, 4).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
    assert_eq!(run(&x), run(&x.contiguous().unwrap()));
    let view = |t: &[Tensor]| wrapped(&t[0].permute((0, 3, 1, 2))?, 4, 9);
    check_gradients(view, &[noise_tensor(&[1, 3, 5, 2], 2).unwrap()], 1e-4, 1e-8).unwrap();
}

#[test]
fn the_gradient_adds_to_other_uses_of_the_input() {
    // A feature pyramid reads a merged map twice. candle's own operation overwrites the other gradient here.
    let pyramid = |up: fn(&Tensor) -> CandleResult<Tensor>| {
        move |t: &[Tensor]| {
            let merged = (&t[0] * 1.5)?;
            up(&merged)?.add(&t[1])?.flatten_all()?.sum_all()? + (&merged * &t[0])?.sum_all()?
        }
    };
    let inputs = [noise_tensor(&[1, 2, 3, 3], 10).unwrap(), noise_tensor(&[1, 2, 6, 6], 11).unwrap()];
    assert!(check_gradients(pyramid(|m| m.upsample_nearest2d(6, 6)), &inputs, 1e-4, 1e-3).is_err());
    check_gradients(pyramid(|m| wrapped(m, 6, 6)), &inputs, 1e-4, 1e-8).unwrap();
}

#[test]
fn unusable_arguments_are_refused_with_a_reason() {
    let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let x = t(&[1, 2, 4, 4]);
    for (x, h, w, reason) in [
        (&t(&[4, 4]), 2, 2, "(N, H, W, C)"),
        (&t(&[0, 2, 4, 4]), 2, 2, "zero"),
        (&x, 0, 2, "zero"),
        (&x, 2, 0, "zero"),
        (&x.to_dtype(DType::U8).unwrap(), 2, 2, "f32 or f64"),
    ] {
        match upsample_nearest2d(x, h, w) {
            Err(Error::Argument { op: "upsample_nearest2d", reason: given }) => {
                assert!(given.contains(reason), "{given}")
            }
            other => panic!("{reason}: {other:?}"),
        }
    }
}
