//! Convolutions with packed weights.

use candle_core::{DType, Device, Tensor};
use ebm_ops::internals::PackedConv2d;
use ebm_ops::{Activation, Error, Result, Workspace};
use proptest::{prop_assert, prop_assume};

use crate::conv2d::naive;
use crate::differences::noise_tensor;
use crate::sizes::{for_all, to};

/// Geometry: N, C, (H, W), O, (kh, kw), stride, padding.
type Case = (usize, usize, (usize, usize), usize, (usize, usize), usize, usize);

fn f32s(tensor: &Tensor) -> Tensor {
    tensor.to_dtype(DType::F32).unwrap()
}

/// Converts (N, C, H, W) in f64 to (N, H, W, C) in f32.
fn map(tensor: &Tensor) -> Tensor {
    f32s(tensor).permute((0, 2, 3, 1)).unwrap()
}

/// Returns the largest difference of a map (N, H, W, C) from a tensor (N, C, H, W), over the tensor's largest element.
fn relative_difference(y: &Tensor, expected: &Tensor) -> f64 {
    let y = y.permute((0, 3, 1, 2)).unwrap().to_dtype(DType::F64).unwrap();
    assert_eq!(expected.dims(), y.dims());
    let largest = |t: Tensor| t.abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
    largest((y - expected).unwrap()) / largest(expected.clone()).max(1e-2)
}

/// Returns arguments in f64 that f32 holds exactly: x, w, bias, scale and a residual with the shape of the result.
fn arguments((n, c, (h, w), o, (kh, kw), stride, padding): Case) -> [Tensor; 5] {
    let (oh, ow) = ((h + 2 * padding - kh) / stride + 1, (w + 2 * padding - kw) / stride + 1);
    let noise =
        |shape: &[usize], salt| f32s(&noise_tensor(shape, salt).unwrap()).to_dtype(DType::F64).unwrap();
    [
        noise(&[n, c, h, w], 1),
        noise(&[o, c, kh, kw], 2),
        noise(&[o], 3),
        noise(&[o], 4),
        noise(&[n, o, oh, ow], 5),
    ]
}

/// Returns the largest relative errors of a plain convolution and of one with everything fused.
fn errors(case: Case) -> [f64; 2] {
    let [x, w, bias, scale, residual] = arguments(case);
    let (.., stride, padding) = case;
    let plain = PackedConv2d::new(&f32s(&w), None, stride, padding).unwrap();
    let y = plain.forward(&map(&x), None, Activation::None).unwrap();
    let expected = naive(&x, &w, None, stride, padding);
    let first = relative_difference(&y, &expected);
    // Stale numbers in the workspace must not show.
    Workspace::shared().give(vec![f32::NAN; 1 << 16]);
    let scaled = w.broadcast_mul(&scale.reshape(((), 1, 1, 1)).unwrap()).unwrap();
    let fused = PackedConv2d::new(&f32s(&scaled), Some(&f32s(&bias)), stride, padding).unwrap();
    let y = fused.forward(&map(&x), Some(&map(&residual)), Activation::Relu).unwrap();
    let column = |t: &Tensor| t.reshape((1, (), 1, 1)).unwrap();
    let expected = expected.broadcast_mul(&column(&scale)).unwrap().broadcast_add(&column(&bias)).unwrap();
    let expected = (expected + residual).unwrap().relu().unwrap();
    [first, relative_difference(&y, &expected)]
}

#[test]
fn agrees_with_the_definition() {
    let choices = [
        vec![1, 3],
        vec![1, 3, 5, 17, 64],
        vec![1, 3, 5, 17, 33, 64],
        to(18),
        to(36),
        vec![1, 3, 7],
        vec![1, 3, 7],
        to(2),
        (0..4).collect(),
    ];
    for_all(64, choices, |[n, c, o, h, w, kh, kw, stride, padding]| {
        prop_assume!(h + 2 * padding >= kh && w + 2 * padding >= kw);
        let errors = errors((n, c, (h, w), o, (kh, kw), stride, padding));
        prop_assert!(errors.iter().all(|e| *e < 1e-5), "{errors:?}");
        Ok(())
    });
}

#[test]
fn large_and_small_products_are_cut_and_right() {
    // Cut by rows, cut by panels, and a pointwise convolution whose rows cross images.
    for case in [
        (1, 64, (30, 41), 64, (3, 3), 1, 0),
        (1, 300, (7, 7), 520, (1, 1), 1, 0),
        (3, 64, (15, 13), 96, (1, 1), 1, 0),
        (1, 64, (15, 13), 96, (1, 1), 2, 0),
    ] {
        let errors = errors(case);
        assert!(errors.iter().all(|e| *e < 1e-5), "{case:?}: {errors:?}");
    }
}

#[test]
fn winograd_agrees_with_the_definition() {
    let choices =
        [to(3), vec![16, 48], vec![16, 64], vec![0, 1], (0..7).collect(), (0..7).collect(), vec![0, 1, 2]];
    for_all(24, choices, |[n, c, o, large, h, w, padding]| {
        // `winograd/mod.rs` tests that these sizes have large tiles and small ones.
        let (n, [h, w], padding) = match large {
            1 => (n, [27 + h, 27 + w], padding),
            _ => (2, [11 + h % 2, 11 + w % 2], padding % 2),
        };
        let errors = errors((n, c, (h, w), o, (3, 3), 1, padding));
        prop_assert!(errors.iter().all(|e| *e < 1e-4), "{errors:?}");
        Ok(())
    });
}

#[test]
fn threads_change_no_bit() {
    for (size, padding, stride) in [((29, 31), 1, 1), ((10, 11), 1, 1), ((29, 31), 0, 2)] {
        same_bits(size, padding, stride);
    }
}

/// Checks Winograd in both forms and direct sums.
fn same_bits(size: (usize, usize), padding: usize, stride: usize) {
    let [x, w, bias, ..] = arguments((2, 48, size, 80, (3, 3), stride, padding));
    let conv = PackedConv2d::new(&f32s(&w), Some(&f32s(&bias)), stride, padding).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let y = pool.install(|| conv.forward(&map(&x), None, Activation::Relu).unwrap());
        y.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(5));
}

#[test]
fn nan_stays_nan() {
    let w = Tensor::ones((1, 1, 1, 1), DType::F32, &Device::Cpu).unwrap();
    let conv = PackedConv2d::new(&w, None, 1, 0).unwrap();
    let x = Tensor::new(&[[[[f32::NAN], [-1.0]]]], &Device::Cpu).unwrap();
    let y =
        conv.forward(&x, None, Activation::Relu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(y[0].is_nan() && y[1] == 0.0);
}

#[test]
fn unusable_arguments_are_refused_with_a_reason() {
    let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let reason = |result: Result<()>| match result {
        Err(Error::Argument { op: "PackedConv2d", reason }) => reason,
        other => panic!("{other:?}"),
    };
    let packed =
        |w: &[usize], b: &[usize], stride| reason(PackedConv2d::new(&t(w), Some(&t(b)), stride, 1).map(drop));
    assert!(packed(&[3, 2, 3], &[3], 1).contains("(O, C, kh, kw)"));
    assert!(packed(&[3, 2, 3, 3], &[2], 1).contains("bias (3)"));
    assert!(packed(&[3, 2, 3, 3], &[3], 0).contains("stride"));
    assert!(packed(&[3, 0, 3, 3], &[3], 1).contains("positive"));
    let conv = PackedConv2d::new(&t(&[3, 2, 5, 5]), None, 1, 1).unwrap();
    let forward = |x: &[usize], r: Option<&[usize]>| {
        reason(conv.forward(&t(x), r.map(t).as_ref(), Activation::None).map(drop))
    };
    assert!(forward(&[1, 9, 9, 3], None).contains("3 channels"));
    assert!(forward(&[1, 2, 9, 2], None).contains("does not fit"));
    assert!(forward(&[0, 9, 9, 2], None).contains("0 maps"));
    assert!(forward(&[1, 9, 9, 2], Some(&[1, 7, 6, 3])).contains("residual"));
}
