//! Convolutions against the definition, central differences and each other.

use candle_core::{DType, Device, Tensor, Var};
use ebm_ops::nhwc::conv2d as conv2d_channels_last;
use ebm_ops::{Error, conv2d};
use proptest::{prop_assert, prop_assume};

use crate::differences::{check_devices, check_gradients, noise_tensor};
use crate::sizes::{for_all, to};

/// Sums the definition of the convolution directly in f64.
pub fn naive(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, stride: usize, padding: usize) -> Tensor {
    let (n, c, h, wd) = x.dims4().unwrap();
    let (o, _, kh, kw) = w.dims4().unwrap();
    let (oh, ow) = ((h + 2 * padding - kh) / stride + 1, (wd + 2 * padding - kw) / stride + 1);
    let flat = |t: &Tensor| t.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
    let (xs, ws) = (flat(x), flat(w));
    let bs = bias.map_or(vec![0.0; o], &flat);
    let mut y = Vec::with_capacity(n * o * oh * ow);
    for n in 0..n {
        for (f, b) in bs.iter().enumerate() {
            for i in 0..oh {
                for j in 0..ow {
                    let mut sum = *b;
                    for ch in 0..c {
                        for u in 0..kh {
                            for v in 0..kw {
                                let (r, q) = (
                                    (i * stride + u).wrapping_sub(padding),
                                    (j * stride + v).wrapping_sub(padding),
                                );
                                if r < h && q < wd {
                                    sum += ws[((f * c + ch) * kh + u) * kw + v]
                                        * xs[((n * c + ch) * h + r) * wd + q];
                                }
                            }
                        }
                    }
                    y.push(sum);
                }
            }
        }
    }
    Tensor::from_vec(y, (n, o, oh, ow), &Device::Cpu).unwrap()
}

fn max_difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.dims(), b.dims());
    let d = (a.to_dtype(DType::F64).unwrap() - b.to_dtype(DType::F64).unwrap()).unwrap();
    d.abs().unwrap().max_all().unwrap().to_scalar().unwrap()
}

/// Returns `(x, w, bias)` of a geometry, in f64.
fn arguments(n: usize, c: usize, hw: (usize, usize), o: usize, k: (usize, usize)) -> [Tensor; 3] {
    [
        noise_tensor(&[n, c, hw.0, hw.1], 1).unwrap(),
        noise_tensor(&[o, c, k.0, k.1], 2).unwrap(),
        noise_tensor(&[o], 3).unwrap(),
    ]
}

/// Returns the gradients of `sum(y * weights)` in x, w and bias.
fn gradients(args: &[Tensor], stride: usize, padding: usize) -> Vec<Tensor> {
    let vars: Vec<Var> = args.iter().map(|t| Var::from_tensor(t).unwrap()).collect();
    let y = conv2d(&vars[0], &vars[1], Some(&vars[2]), stride, padding).unwrap();
    let weights = noise_tensor(y.dims(), 4).unwrap().to_dtype(y.dtype()).unwrap();
    let grads = (y * weights).unwrap().sum_all().unwrap().backward().unwrap();
    vars.iter().map(|v| grads.get(v).unwrap().clone()).collect()
}

#[test]
fn agrees_with_the_definition_and_central_differences() {
    let choices =
        [to(3), to(3), to(4), to(8), to(8), vec![1, 2, 3, 7], vec![1, 3, 7], to(3), vec![0, 1, 2, 3]];
    for_all(96, choices, |[n, c, o, h, w, kh, kw, stride, padding]| {
        prop_assume!(h + 2 * padding >= kh && w + 2 * padding >= kw);
        let [x, wt, bias] = arguments(n, c, (h, w), o, (kh, kw));
        let y = conv2d(&x, &wt, Some(&bias), stride, padding).unwrap();
        prop_assert!(max_difference(&y, &naive(&x, &wt, Some(&bias), stride, padding)) < 1e-12);
        let checked = check_gradients(
            |t| conv2d(&t[0], &t[1], Some(&t[2]), stride, padding).map_err(candle_core::Error::wrap),
            &[x, wt, bias],
            1e-4,
            1e-8,
        );
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        Ok(())
    });
}

/// Case `(batch, channels, (height, width), filters, kernel, stride, padding)`.
type Case = (usize, usize, (usize, usize), usize, usize, usize, usize);

/// Sizes that reach every way of cutting the work: several blocks per image, several images per block, several groups of
/// filters and channels, the image as its own im2col, both ways of the input's gradient.
const LARGE: [Case; 13] = [
    (1, 5, (41, 53), 7, 3, 1, 1),
    (3, 33, (9, 6), 130, 3, 1, 1),
    (9, 130, (3, 4), 9, 3, 1, 1),
    (2, 17, (33, 40), 70, 1, 1, 0),
    (5, 17, (5, 7), 70, 1, 1, 0),
    (2, 3, (61, 50), 9, 7, 2, 3),
    (2, 40, (31, 28), 19, 3, 2, 1),
    (3, 21, (15, 16), 11, 1, 2, 0),
    // Fewer pixels than filters, so that weights are used as they are stored.
    (2, 21, (4, 5), 83, 3, 1, 1),
    (3, 40, (5, 4), 67, 3, 2, 1),
    (2, 130, (3, 2), 90, 1, 1, 0),
    (4, 33, (5, 6), 70, 1, 2, 0),
    (1, 9, (6, 3), 50, 5, 3, 4),
];

#[test]
fn every_partition_agrees_with_the_definition() {
    for (n, c, hw, o, k, stride, padding) in LARGE {
        let args = arguments(n, c, hw, o, (k, k));
        let [x, w, bias] = &args;
        let y = conv2d(x, w, Some(bias), stride, padding).unwrap();
        assert!(max_difference(&y, &naive(x, w, Some(bias), stride, padding)) < 1e-10);
        assert!(
            max_difference(
                &conv2d(x, w, None, stride, padding).unwrap(),
                &naive(x, w, None, stride, padding)
            ) < 1e-10
        );
        // y is bilinear, so <conv(u, w), g> = <u, dx> and <conv(x, v), g> = <v, dw> for any u and v: the gradients are
        // exactly adjoint.
        let g = noise_tensor(y.dims(), 4).unwrap();
        let grads = gradients(&args, stride, padding);
        let dot = |a: &Tensor, b: &Tensor| (a * b).unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap();
        let (u, v) = (noise_tensor(x.dims(), 5).unwrap(), noise_tensor(w.dims(), 6).unwrap());
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * (1.0 + a.abs()), "{a} {b}");
        close(dot(&naive(&u, w, None, stride, padding), &g), dot(&u, &grads[0]));
        close(dot(&naive(x, &v, None, stride, padding), &g), dot(&v, &grads[1]));
        close(dot(&g.sum((0, 2, 3)).unwrap(), bias), dot(bias, &grads[2]));
    }
}

#[test]
fn single_precision_agrees_with_double() {
    for (n, c, hw, o, k, stride, padding) in LARGE {
        let args = arguments(n, c, hw, o, (k, k));
        let single: Vec<Tensor> = args.iter().map(|t| t.to_dtype(DType::F32).unwrap()).collect();
        let double = conv2d(&args[0], &args[1], Some(&args[2]), stride, padding).unwrap();
        let y = conv2d(&single[0], &single[1], Some(&single[2]), stride, padding).unwrap();
        assert_eq!(y.dtype(), DType::F32);
        let scale = |t: &Tensor| t.abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
        assert!(max_difference(&y, &double) < 3e-6 * scale(&double));
        for (s, d) in gradients(&single, stride, padding).iter().zip(gradients(&args, stride, padding)) {
            assert!(max_difference(s, &d) < 3e-6 * scale(&d));
        }
    }
}

/// Returns result and gradients in f32, by maps with the channels innermost.
fn channels_last_run(args: &[Tensor], stride: usize, padding: usize) -> Vec<Tensor> {
    let vars: Vec<Var> =
        args.iter().map(|t| Var::from_tensor(&t.to_dtype(DType::F32).unwrap()).unwrap()).collect();
    let x = vars[0].permute((0, 2, 3, 1)).unwrap();
    let y = conv2d_channels_last(&x, &vars[1], Some(&vars[2]), stride, padding).unwrap();
    let y = y.permute((0, 3, 1, 2)).unwrap();
    let weights = noise_tensor(y.dims(), 4).unwrap().to_dtype(DType::F32).unwrap();
    let grads = (&y * weights).unwrap().sum_all().unwrap().backward().unwrap();
    [y.detach()].into_iter().chain(vars.iter().map(|v| grads.get(v).unwrap().clone())).collect()
}

fn assert_both_orders_agree(args: &[Tensor; 3], stride: usize, padding: usize, bound: f64) {
    let y = conv2d(&args[0], &args[1], Some(&args[2]), stride, padding).unwrap();
    let expected: Vec<Tensor> = [y].into_iter().chain(gradients(args, stride, padding)).collect();
    let single = args.each_ref().map(|t| t.to_dtype(DType::F32).unwrap());
    let y = conv2d(&single[0], &single[1], Some(&single[2]), stride, padding).unwrap();
    let first: Vec<Tensor> = [y].into_iter().chain(gradients(&single, stride, padding)).collect();
    let last = channels_last_run(args, stride, padding);
    for ((expected, first), last) in expected.iter().zip(first).zip(last) {
        let scale = expected.abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap().max(1.0);
        assert!(max_difference(&first, expected) < bound * scale);
        assert!(max_difference(&last, expected) < bound * scale);
    }
}

#[test]
fn single_precision_agrees_in_both_orders() {
    let choices = [
        to(3),
        vec![1, 3, 16, 33],
        vec![1, 5, 16, 40],
        to(11),
        to(19),
        vec![1, 2, 3, 7],
        vec![1, 3, 7],
        to(3),
        (0..5).collect(),
    ];
    for_all(64, choices, |[n, c, o, h, w, kh, kw, stride, padding]| {
        prop_assume!(h + 2 * padding >= kh && w + 2 * padding >= kw);
        assert_both_orders_agree(&arguments(n, c, (h, w), o, (kh, kw)), stride, padding, 5e-6);
        Ok(())
    });
}

#[test]
fn winograd_agrees_in_both_orders() {
    assert_both_orders_agree(&arguments(2, 32, (35, 30), 48, (3, 3)), 1, 1, 2e-5);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut bits = Vec::new();
            for (n, c, hw, o, k, stride, padding) in LARGE {
                let args = arguments(n, c, hw, o, (k, k)).map(|t| t.to_dtype(DType::F32).unwrap());
                let y = conv2d(&args[0], &args[1], Some(&args[2]), stride, padding).unwrap();
                for t in std::iter::once(y).chain(gradients(&args, stride, padding)) {
                    bits.extend(
                        t.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|v| v.to_bits()),
                    );
                }
            }
            bits
        })
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(5));
}

#[test]
fn strided_views_are_read_as_they_look() {
    let [x, w, _] = arguments(2, 3, (6, 5), 4, (3, 3));
    let turned = x.permute((0, 1, 3, 2)).unwrap();
    let cut = x.narrow(0, 1, 1).unwrap();
    for view in [turned, cut] {
        let y = conv2d(&view, &w, None, 2, 1).unwrap();
        assert_eq!(max_difference(&y, &conv2d(&view.copy().unwrap(), &w, None, 2, 1).unwrap()), 0.0);
        assert!(max_difference(&y, &naive(&view, &w, None, 2, 1)) < 1e-12);
        check_gradients(
            |t| {
                let y = conv2d(&t[0].permute((0, 1, 3, 2))?, &t[1], None, 2, 1)
                    .map_err(candle_core::Error::wrap)?;
                // The gradient that reaches the convolution is a strided view too.
                y.permute((0, 3, 2, 1))
            },
            &[view.contiguous().unwrap(), w.clone()],
            1e-4,
            1e-8,
        )
        .unwrap();
    }
}

#[test]
fn products_with_columns_agree_with_the_definition_and_central_differences() {
    for (n, c, size, o, kernel, stride, padding) in [
        (2, 3, (7, 8), 4, (3, 3), 2, 1),
        (1, 2, (5, 6), 3, (3, 2), 1, 1),
        (2, 3, (4, 5), 2, (1, 1), 1, 0),
        (1, 2, (6, 7), 2, (1, 1), 2, 0),
    ] {
        let args = arguments(n, c, size, o, kernel);
        // This is how f64 is computed.
        let run = |t: &[Tensor]| {
            conv2d(&t[0], &t[1], Some(&t[2]), stride, padding).map_err(candle_core::Error::wrap)
        };
        let expected = naive(&args[0], &args[1], Some(&args[2]), stride, padding);
        assert!(max_difference(&run(&args).unwrap(), &expected) < 1e-12);
        check_gradients(run, &args, 1e-5, 1e-7).unwrap();
    }
}

#[test]
fn frozen_arguments_get_no_gradient() {
    let [x, w, bias] = arguments(1, 2, (5, 4), 3, (3, 3));
    let wv = Var::from_tensor(&w).unwrap();
    let y = conv2d(&x, &wv, Some(&bias), 1, 1).unwrap();
    let grads = y.sum_all().unwrap().backward().unwrap();
    assert!(grads.get(&wv).is_some() && grads.get(&x).is_none() && grads.get(&bias).is_none());
    let frozen = conv2d(&x, &w, Some(&bias), 1, 1).unwrap();
    assert!(!frozen.track_op());
}

#[test]
fn candle_fails_where_height_and_width_leave_different_remainders() {
    let [x, w, _] = arguments(2, 3, (7, 8), 4, (3, 3));
    let xv = Var::from_tensor(&x).unwrap();
    let theirs = xv.conv2d(&w, 1, 2, 1, 1).unwrap().sum_all().unwrap().backward();
    assert!(
        theirs.is_err(),
        "candle's own gradient works now: this crate's convolution has one reason less to exist"
    );
    let ours = |t: &[Tensor]| conv2d(&t[0], &t[1], None, 2, 1).map_err(candle_core::Error::wrap);
    check_gradients(ours, &[x, w], 1e-4, 1e-8).unwrap();
}

#[test]
fn unusable_arguments_are_refused_with_a_reason() {
    let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let (x, w, b) = (t(&[1, 2, 4, 4]), t(&[3, 2, 3, 3]), t(&[3]));
    let refused = |x: &Tensor,
                   w: &Tensor,
                   b: Option<&Tensor>,
                   stride: usize,
                   padding: usize,
                   reason: &str| {
        match conv2d(x, w, b, stride, padding) {
            Err(Error::Argument { op: "conv2d", reason: given }) => {
                assert!(given.contains(reason), "{given}")
            }
            other => panic!("{reason}: {other:?}"),
        }
    };
    refused(&t(&[2, 4, 4]), &w, None, 1, 0, "(N, C, H, W)");
    refused(&x, &t(&[3, 3, 3, 3]), None, 1, 0, "2 channels, w expects 3");
    refused(&x, &w, Some(&t(&[2])), 1, 0, "bias (3)");
    refused(&t(&[0, 2, 4, 4]), &w, Some(&b), 1, 0, "zero extent");
    refused(&x, &t(&[0, 2, 3, 3]), None, 1, 0, "zero extent");
    refused(&x, &w, None, 0, 0, "stride");
    refused(&x, &t(&[3, 2, 5, 3]), None, 1, 0, "does not fit");
    refused(&x, &w, None, 1, usize::MAX, "does not fit");
    refused(&x, &w.to_dtype(DType::F64).unwrap(), None, 1, 0, "F64");
    refused(&x.to_dtype(DType::F16).unwrap(), &w.to_dtype(DType::F16).unwrap(), None, 1, 0, "f32 or f64");
}

#[test]
fn devices_agree_in_single_precision() {
    let wrap = candle_core::Error::wrap;
    for (n, c, hw, o, k, stride, padding) in [
        (2, 5, (9, 11), 7, 3, 2, 1),
        (1, 33, (6, 4), 40, 1, 1, 0),
        (3, 3, (13, 12), 4, 7, 2, 3),
        (2, 1, (5, 5), 6, 3, 1, 1),
    ] {
        let [x, w, bias] = arguments(n, c, hw, o, (k, k)).map(|t| t.to_dtype(DType::F32).unwrap());
        let last = x.permute((0, 2, 3, 1)).unwrap().contiguous().unwrap();
        let first = |t: &[Tensor]| conv2d(&t[0], &t[1], t.get(2), stride, padding).map_err(wrap);
        let innermost =
            |t: &[Tensor]| conv2d_channels_last(&t[0], &t[1], t.get(2), stride, padding).map_err(wrap);
        check_devices(first, &[x.clone(), w.clone(), bias.clone()], 1e-5).unwrap();
        check_devices(first, &[x, w.clone()], 1e-5).unwrap();
        check_devices(innermost, &[last.clone(), w.clone(), bias], 1e-5).unwrap();
        check_devices(innermost, &[last, w], 1e-5).unwrap();
    }
}
