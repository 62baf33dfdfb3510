//! Depthwise convolutions.

use std::collections::HashMap;

use candle_core::{DType, Device, Result as CandleResult, Tensor};
use candle_nn::VarBuilder;
use ebm_ops::nhwc::depthwise_conv2d;
use ebm_ops::nn::{Conv2d, Conv2dConfig};
use ebm_ops::{Activation, Error, Padding};
use proptest::{prop_assert, prop_assume};

use crate::differences::{check_devices, check_gradients, distance, noise_tensor};
use crate::sizes::{for_all, to};

pub const PADDINGS: [Padding; 4] = [Padding::Same, Padding::Each(0), Padding::Each(1), Padding::Each(2)];

/// Returns the zeros before an axis and the number of outputs along it, or `None` if the kernel does not fit.
pub fn along(padding: Padding, size: usize, kernel: usize, stride: usize) -> Option<(usize, usize)> {
    match padding {
        Padding::Same => {
            let outputs = size.div_ceil(stride);
            Some((((outputs - 1) * stride + kernel).saturating_sub(size) / 2, outputs))
        }
        Padding::Each(zeros) => Some((zeros, (size + 2 * zeros).checked_sub(kernel)? / stride + 1)),
    }
}

/// Returns a layer with constant parameters, which are packed if they are f32.
pub fn constant(weight: &Tensor, bias: &Tensor, stride: usize, padding: Padding) -> Conv2d {
    let (channels, _, kernel, _) = weight.dims4().unwrap();
    let parameters =
        HashMap::from([("weight", weight), ("bias", bias)].map(|(k, t)| (k.to_owned(), t.clone())));
    let vb = VarBuilder::from_tensors(parameters, weight.dtype(), &Device::Cpu);
    Conv2d::new(Conv2dConfig { stride, padding, ..Conv2dConfig::depthwise(channels, kernel) }, vb).unwrap()
}

fn wrapped(t: &[Tensor], bias: bool, stride: usize, padding: Padding) -> CandleResult<Tensor> {
    depthwise_conv2d(&t[0], &t[1], bias.then(|| &t[2]), stride, padding).map_err(candle_core::Error::wrap)
}

/// Computes the convolution by candle, whose values for groups are right, of a map with the zeros written out.
fn expected(x: &Tensor, w: &Tensor, stride: usize, padding: Padding) -> Tensor {
    let sizes = [(1, w.dim(2).unwrap()), (2, w.dim(3).unwrap())];
    let mut x = x.clone();
    for (axis, kernel) in sizes {
        let size = x.dim(axis).unwrap();
        let (before, output) = along(padding, size, kernel, stride).unwrap();
        let behind = ((output - 1) * stride + kernel).saturating_sub(before + size);
        x = x.pad_with_zeros(axis, before, behind).unwrap();
    }
    let y = x.permute((0, 3, 1, 2)).unwrap().contiguous().unwrap();
    let y = y.conv2d(w, 0, stride, 1, w.dim(0).unwrap()).unwrap();
    y.permute((0, 2, 3, 1)).unwrap()
}

#[test]
fn values_and_gradients() {
    let choices = [
        to(2),
        vec![1, 3, 17],
        (3..7).collect(),
        (3..7).collect(),
        vec![0, 1, 2],
        to(3),
        (0..PADDINGS.len()).collect(),
    ];
    for_all(24, choices, |[n, c, h, w, kernel, stride, padding]| {
        let (kernel, padding) = ([[3, 3], [3, 1], [5, 5]][kernel], PADDINGS[padding]);
        prop_assume!(along(padding, h.min(w), kernel[0], stride).is_some());
        let x = noise_tensor(&[n, h, w, c], 1).unwrap();
        let weight = noise_tensor(&[c, 1, kernel[0], kernel[1]], 2).unwrap();
        let y = wrapped(&[x.clone(), weight.clone()], false, stride, padding).unwrap();
        let found = distance(&y, &expected(&x, &weight, stride, padding)).unwrap();
        prop_assert!(found < 1e-14, "{found}");
        let bias = noise_tensor(&[c], 3).unwrap();
        let checked = check_gradients(|t| wrapped(t, true, stride, padding), &[x, weight, bias], 1e-4, 1e-8);
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        Ok(())
    });
}

#[test]
fn constants_give_the_same_in_one_pass() {
    // Numbers of channels below, between and at multiples of the channels that are summed at a time.
    for (channels, kernel, stride) in [(3, 3, 1), (16, 5, 2), (24, 3, 2), (40, 5, 1), (97, 3, 1)] {
        let x = noise_tensor(&[2, 11, 14, channels], 1).unwrap();
        let weight = noise_tensor(&[channels, 1, kernel, kernel], 2).unwrap();
        let bias = noise_tensor(&[channels], 3).unwrap();
        let narrow = [&x, &weight, &bias].map(|t| t.to_dtype(DType::F32).unwrap());
        for (activation, scale) in
            [(Activation::None, 1.0), (Activation::Relu, 1.0), (Activation::Relu6, 8.0)]
        {
            let [x, weight, bias] = [&x, &weight, &bias].map(|t| (t * scale).unwrap());
            let [x32, weight32, bias32] = narrow.each_ref().map(|t| (t * scale).unwrap());
            let padding = Padding::Same;
            let run = |x: &Tensor, weight: &Tensor, bias: &Tensor| {
                let layer = constant(weight, bias, stride, padding);
                let layer = if activation == Activation::Relu6 { layer.relu6() } else { layer };
                layer.forward_channels_last(x, None, activation != Activation::None, false).unwrap()
            };
            let found = distance(&run(&x32, &weight32, &bias32), &run(&x, &weight, &bias)).unwrap();
            assert!(found < 1e-5, "{channels} {activation:?}: {found}");
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let x = noise_tensor(&[2, 33, 40, 24], 1).unwrap().to_dtype(DType::F32).unwrap();
    let weight = noise_tensor(&[24, 1, 5, 5], 2).unwrap().to_dtype(DType::F32).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let vars = [&x, &weight].map(|t| candle_core::Var::from_tensor(t).unwrap());
            let tensors = vars.each_ref().map(|v| v.as_tensor().clone());
            let y = wrapped(&tensors, false, 2, Padding::Same).unwrap();
            let grads = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
            let all = [&y, grads.get(&vars[0]).unwrap(), grads.get(&vars[1]).unwrap()];
            all.map(|t| t.flatten_all().unwrap().to_vec1::<f32>().unwrap())
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn single_precision_is_that_of_the_cpu() {
    let x = noise_tensor(&[2, 9, 12, 24], 1).unwrap().to_dtype(DType::F32).unwrap();
    let weight = noise_tensor(&[24, 1, 5, 5], 2).unwrap().to_dtype(DType::F32).unwrap();
    let bias = noise_tensor(&[24], 3).unwrap().to_dtype(DType::F32).unwrap();
    check_devices(|t| wrapped(t, true, 2, Padding::Same), &[x, weight, bias], 1e-5).unwrap();
}

#[test]
fn half_precision_is_rounded_at_the_end() {
    let x = noise_tensor(&[1, 5, 6, 4], 1).unwrap().to_dtype(DType::BF16).unwrap();
    let weight = noise_tensor(&[4, 1, 3, 3], 2).unwrap().to_dtype(DType::F32).unwrap();
    let run = |x: &Tensor| wrapped(&[x.clone(), weight.clone()], false, 1, Padding::Each(1)).unwrap();
    let wide = run(&x.to_dtype(DType::F32).unwrap()).to_dtype(DType::BF16).unwrap();
    assert_eq!(distance(&run(&x), &wide).unwrap(), 0.0);
}

#[test]
fn unusable_arguments_are_refused_with_a_reason() {
    let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let (x, w) = (t(&[1, 4, 4, 2]), t(&[2, 1, 3, 3]));
    let refused = |x: &Tensor, w: &Tensor, b: Option<&Tensor>, stride, padding| match depthwise_conv2d(
        x, w, b, stride, padding,
    ) {
        Err(Error::Argument { op: "depthwise conv2d", reason }) => reason,
        other => panic!("{other:?}"),
    };
    let same = Padding::Same;
    assert!(refused(&x, &t(&[2, 2, 3, 3]), None, 1, same).contains("(C, 1, kh, kw)"));
    assert!(refused(&t(&[4, 4, 2]), &w, None, 1, same).contains("(N, H, W, C)"));
    assert!(refused(&t(&[1, 4, 4, 3]), &w, None, 1, same).contains("3 channels"));
    assert!(refused(&t(&[0, 4, 4, 2]), &w, None, 1, same).contains("zero extent"));
    assert!(refused(&x, &w, None, 0, same).contains("stride"));
    assert!(refused(&x, &t(&[2, 1, 5, 5]), None, 1, Padding::Each(0)).contains("does not fit"));
    assert!(refused(&x, &w, Some(&t(&[3])), 1, same).contains("bias"));
    assert!(refused(&x, &w.to_dtype(DType::F64).unwrap(), None, 1, same).contains("F64"));
    let whole = [&x, &w].map(|t| t.to_dtype(DType::U8).unwrap());
    assert!(refused(&whole[0], &whole[1], None, 1, same).contains("f32 or f64"));
}
