//! Convolutions, pooling and resizing against PyTorch's values and gradients (`golden/ops_image.py`).

use candle_core::{DType, Tensor, Var};
use ebm_ops::Result;
use ebm_ops::nhwc::{from_nchw, to_nchw};
use ebm_ops::{Padding, conv2d, nhwc};

use crate::common::{difference, golden, largest};

/// The numbers in a case's name after each of `letters` or, for `"_"`, after each underscore.
fn numbers(name: &str, letters: &[&str]) -> Vec<usize> {
    let parts = name.split('_').skip(1);
    parts.filter_map(|part| letters.iter().find_map(|l| part.strip_prefix(l)?.parse().ok())).collect()
}

/// Runs every case whose name starts with `prefix`; returns how many there were.
fn compare(prefix: &str, inputs: &[&str], run: impl Fn(&str, &[Tensor]) -> Result<Tensor>) -> usize {
    let golden = golden("ops_image");
    let mut cases: Vec<&str> =
        golden.keys().filter_map(|k| k.strip_suffix(".y")).filter(|k| k.starts_with(prefix)).collect();
    cases.sort_unstable();
    for case in &cases {
        let get = |part: &str, dtype: DType| golden[&format!("{case}.{part}")].to_dtype(dtype).unwrap();
        for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
            let vars: Vec<Var> = inputs.iter().map(|i| Var::from_tensor(&get(i, dtype)).unwrap()).collect();
            let tensors: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
            let y = run(case, &tensors).unwrap();
            let grads = (&y * get("g", dtype)).unwrap().sum_all().unwrap().backward().unwrap();
            let close = |what: &str, ours: &Tensor, theirs: Tensor| {
                let (error, scale) = (difference(ours, &theirs), largest(&theirs));
                assert!(error <= tolerance * scale, "{case} {what}: {error} of {scale}");
            };
            close("y", &y, get("y", dtype));
            for (name, var) in inputs.iter().zip(&vars) {
                close(name, grads.get(var).unwrap(), get(&format!("d{name}"), dtype));
            }
        }
    }
    cases.len()
}

#[test]
fn convolution_agrees_with_pytorch() {
    let cases = compare("conv2d", &["x", "w", "b"], |name, t| match numbers(name, &["s", "p"])[..] {
        [stride, padding] => conv2d(&t[0], &t[1], Some(&t[2]), stride, padding),
        _ => unreachable!("{name}"),
    });
    assert_eq!(cases, 6);
}

#[test]
fn depthwise_convolution_agrees_with_pytorch() {
    let cases = compare("depthwise", &["x", "w", "b"], |name, t| {
        let (stride, padding) = match numbers(name, &["s", "p"])[..] {
            [stride, padding] => (stride, Padding::Each(padding)),
            [stride] => (stride, Padding::Same),
            _ => unreachable!("{name}"),
        };
        let x = t[0].permute((0, 2, 3, 1))?;
        let y = nhwc::depthwise_conv2d(&x, &t[1], Some(&t[2]), stride, padding)?;
        Ok(y.permute((0, 3, 1, 2))?)
    });
    assert_eq!(cases, 6);
}

#[test]
fn max_pooling_agrees_with_pytorch() {
    let cases = compare("max_pool2d", &["x"], |name, t| match numbers(name, &["k", "s", "p"])[..] {
        [kernel, stride, padding] => to_nchw(&nhwc::max_pool2d(&from_nchw(&t[0])?, kernel, stride, padding)?),
        _ => unreachable!("{name}"),
    });
    assert_eq!(cases, 3);
}

#[test]
fn nearest_resizing_agrees_with_pytorch() {
    let cases = compare("upsample", &["x"], |name, t| match numbers(name, &[""])[..] {
        [height, width] => to_nchw(&nhwc::upsample_nearest2d(&from_nchw(&t[0])?, height, width)?),
        _ => unreachable!("{name}"),
    });
    assert_eq!(cases, 4);
}
