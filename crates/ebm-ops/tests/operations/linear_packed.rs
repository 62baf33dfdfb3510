//! Linear layers with packed weights.

use candle_core::{DType, Device, Tensor};
use ebm_ops::device::Precision;
use ebm_ops::nn::PackedLinear;
use ebm_ops::{Error, Result, Workspace, linear};

use crate::differences::noise_tensor;

fn noise(shape: &[usize], seed: u64) -> Tensor {
    noise_tensor(shape, seed).unwrap().to_dtype(DType::F32).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_close(found: &[f32], expected: &Tensor) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 2e-5, "{found} against {expected}");
    }
}

#[test]
fn it_is_the_layer_and_its_gradient() {
    let workspace = Workspace::new();
    for (rows, inputs, outputs) in [(1, 1, 1), (7, 33, 5), (100, 900, 70)] {
        let (x, w, b) = (noise(&[rows, inputs], 1), noise(&[outputs, inputs], 2), noise(&[outputs], 3));
        let layer = PackedLinear::new(&w, Some(&b)).unwrap();
        assert_eq!((layer.inputs(), layer.outputs()), (inputs, outputs));
        let x_numbers = numbers(&x);
        let expected = linear(&x, &w, Some(&b)).unwrap();
        assert_close(&layer.forward(&x_numbers, false, &workspace).unwrap(), &expected);
        let y = layer.forward(&x_numbers, true, &workspace).unwrap();
        assert_close(&y, &expected.relu().unwrap());

        let g = noise(&[rows, outputs], 4);
        let g_numbers = numbers(&g);
        let plain = layer.input_gradient(&g_numbers, None, &workspace).unwrap();
        assert_close(&plain, &g.matmul(&w).unwrap());
        let open = expected.gt(0.0).unwrap().to_dtype(DType::F32).unwrap();
        let masked = layer.input_gradient(&g_numbers, Some(&y), &workspace).unwrap();
        assert_close(&masked, &(g * open).unwrap().matmul(&w).unwrap());
    }
}

#[test]
fn inputs_in_another_order() {
    let (x, w) = (noise(&[3, 8], 1), noise(&[4, 8], 2));
    // The layer reads x backwards.
    let layer = PackedLinear::with_inputs(&w, None, Precision::Full, &|i| 7 - i).unwrap();
    let mut turned = numbers(&x);
    turned.chunks_exact_mut(8).for_each(<[f32]>::reverse);
    let y = layer.forward(&turned, false, &Workspace::new()).unwrap();
    assert_close(&y, &linear(&x, &w, None).unwrap());
}

/// Compares with the layer in f64 on numbers that candle rounded to bf16.
#[test]
fn in_bf16_it_is_the_layer_of_rounded_numbers() {
    let workspace = Workspace::new();
    let rounded = |x: &Tensor| x.to_dtype(DType::BF16).unwrap().to_dtype(DType::F64).unwrap();
    for (rows, inputs, outputs) in [(1, 1, 1), (7, 33, 5), (100, 1901, 70)] {
        let (x, w, b) = (noise(&[rows, inputs], 1), noise(&[outputs, inputs], 2), noise(&[outputs], 3));
        let layer = PackedLinear::with_inputs(&w, Some(&b), Precision::Bf16, &|i| i).unwrap();
        assert_eq!((layer.inputs(), layer.outputs()), (inputs, outputs));
        let product = rounded(&x).matmul(&rounded(&w).t().unwrap()).unwrap();
        let expected = product.broadcast_add(&b.to_dtype(DType::F64).unwrap()).unwrap();
        let y = layer.forward(&numbers(&x), false, &workspace).unwrap();
        assert_close(&y, &expected.to_dtype(DType::F32).unwrap());

        let g = noise(&[rows, outputs], 4);
        let found = layer.input_gradient(&numbers(&g), None, &workspace).unwrap();
        let expected = rounded(&g).matmul(&rounded(&w)).unwrap();
        assert_close(&found, &expected.to_dtype(DType::F32).unwrap());
    }
}

#[test]
fn no_rows_give_no_rows() {
    let layer = PackedLinear::new(&noise(&[4, 8], 2), None).unwrap();
    assert!(layer.forward(&[], true, &Workspace::new()).unwrap().is_empty());
}

#[test]
fn bad_arguments_are_errors() {
    let w = noise(&[4, 8], 2);
    let refused = |result: Result<PackedLinear>| {
        assert!(matches!(result, Err(Error::Argument { op: "PackedLinear", .. })));
    };
    refused(PackedLinear::new(&w, Some(&noise(&[8], 1))));
    refused(PackedLinear::new(&noise(&[8], 1), None));
    refused(PackedLinear::new(&Tensor::zeros((0, 8), DType::F32, &Device::Cpu).unwrap(), None));
    refused(PackedLinear::with_inputs(&w, None, Precision::Full, &|i| i + 1));
    let (layer, workspace) = (PackedLinear::new(&w, None).unwrap(), Workspace::new());
    assert!(layer.forward(&[0.0; 9], true, &workspace).is_err());
    assert!(layer.input_gradient(&[0.0; 5], None, &workspace).is_err());
    assert!(layer.input_gradient(&[0.0; 4], Some(&[0.0; 8]), &workspace).is_err());
}
