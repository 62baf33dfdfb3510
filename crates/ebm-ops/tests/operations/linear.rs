//! Linear layers.

use candle_core::{DType, Device, Tensor};
use ebm_ops::heads::linear_weight_gradient;
use ebm_ops::{Error, linear};

use crate::differences::{check_gradients, noise_tensor};

fn inputs(rows: usize, inputs: usize, outputs: usize) -> [Tensor; 3] {
    [
        noise_tensor(&[rows, inputs], 1).unwrap(),
        noise_tensor(&[outputs, inputs], 2).unwrap(),
        noise_tensor(&[outputs], 3).unwrap(),
    ]
}

#[test]
fn the_weights_gradient_is_backwards() {
    let (x, w) = (noise_tensor(&[7, 3], 1).unwrap(), noise_tensor(&[4, 3], 2).unwrap());
    let grad = noise_tensor(&[7, 4], 3).unwrap();
    let w = candle_core::Var::from_tensor(&w).unwrap();
    let sum = (linear(&x, &w, None).unwrap() * &grad).unwrap().sum_all().unwrap();
    let expected = sum.backward().unwrap().get(&w).unwrap().clone();
    let found = linear_weight_gradient(&x, &grad).unwrap();
    assert_eq!(found.to_vec2::<f64>().unwrap(), expected.to_vec2::<f64>().unwrap());
    assert!(linear_weight_gradient(&x, &grad.narrow(0, 0, 5).unwrap()).is_err());
}

#[test]
fn it_is_the_product_whatever_the_cut() {
    // One task, cut by rows, cut by columns, and sizes that are multiples of nothing. The last case is large enough for
    // the packed products.
    for (rows, columns, outputs) in
        [(1, 1, 1), (3, 10, 7), (700, 65, 33), (5, 300, 517), (129, 130, 131), (63, 517, 301)]
    {
        let [x, w, bias] = inputs(rows, columns, outputs);
        let expected = x.matmul(&w.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
        for dtype in [DType::F64, DType::F32] {
            let [x, w, bias] = [&x, &w, &bias].map(|t| t.to_dtype(dtype).unwrap());
            let y = linear(&x, &w, Some(&bias)).unwrap().to_dtype(DType::F64).unwrap();
            let error = (y - &expected).unwrap().abs().unwrap().max_all().unwrap();
            let bound = if dtype == DType::F64 { 1e-12 } else { 2e-5 };
            assert!(
                error.to_scalar::<f64>().unwrap() < bound,
                "{rows} {columns} {outputs} {dtype:?}: {error}"
            );
        }
    }
}

#[test]
fn gradients_against_differences() {
    let all = inputs(4, 5, 3);
    check_gradients(|t| Ok(linear(&t[0], &t[1], Some(&t[2])).unwrap()), &all, 1e-5, 1e-8).unwrap();
    check_gradients(|t| Ok(linear(&t[0], &t[1], None).unwrap()), &all[..2], 1e-5, 1e-8).unwrap();
    // A transposed argument.
    let x = noise_tensor(&[5, 4], 1).unwrap();
    let turned = |t: &[Tensor]| Ok(linear(&t[0].t()?, &t[1], None).unwrap());
    check_gradients(turned, &[x, all[1].clone()], 1e-5, 1e-8).unwrap();
}

#[test]
fn gradients_in_single_precision_are_those_in_double() {
    let all = inputs(63, 517, 301);
    let seeds = noise_tensor(&[63, 301], 4).unwrap();
    let gradients = |dtype: DType| {
        let all: Vec<_> =
            all.iter().map(|t| candle_core::Var::from_tensor(&t.to_dtype(dtype).unwrap()).unwrap()).collect();
        let y = linear(&all[0], &all[1], Some(&all[2])).unwrap();
        let store = (y * seeds.to_dtype(dtype).unwrap()).unwrap().sum_all().unwrap().backward().unwrap();
        all.iter().map(|t| store.get(t).unwrap().to_dtype(DType::F64).unwrap()).collect::<Vec<_>>()
    };
    for (single, double) in gradients(DType::F32).iter().zip(gradients(DType::F64)) {
        let error = (single - double).unwrap().abs().unwrap().max_all().unwrap();
        assert!(error.to_scalar::<f64>().unwrap() < 2e-5, "{error}");
    }
}

#[test]
fn bad_arguments_are_errors() {
    let [x, w, bias] = inputs(4, 5, 3);
    let refused = |x: &Tensor, w: &Tensor, bias: Option<&Tensor>| {
        assert!(matches!(linear(x, w, bias), Err(Error::Argument { op: "linear", .. })));
    };
    refused(&x, &w.t().unwrap(), None);
    refused(&x, &w, Some(&x));
    refused(&x.unsqueeze(0).unwrap(), &w, None);
    refused(&x.to_dtype(DType::F32).unwrap(), &w, Some(&bias));
    refused(&Tensor::zeros((0, 5), DType::F64, &Device::Cpu).unwrap(), &w, None);
}
