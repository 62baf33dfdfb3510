//! The late-fusion head.

use candle_core::{DType, Device, Tensor, Var};
use ebm_ops::heads::LateFusion;
use ebm_ops::{Error, Result};

use crate::common::{assert_close, largest};
use crate::differences::{check_gradients, devices, noise_tensor};

/// Returns a, y, then the parameters: layers D → 3 → 4, W_y, w and its bias.
fn arguments(batch: usize, count: usize, dim: usize, hidden: usize, widths: &[usize]) -> Vec<Tensor> {
    let mut shapes = vec![vec![batch, hidden], vec![batch, count, dim]];
    let mut inputs = dim;
    for &outputs in widths {
        shapes.extend([vec![outputs, inputs], vec![outputs]]);
        inputs = outputs;
    }
    shapes.extend([vec![hidden, inputs], vec![1, hidden], vec![1]]);
    shapes.iter().zip(1..).map(|(shape, salt)| noise_tensor(shape, salt).unwrap()).collect()
}

fn head(parameters: &[Tensor]) -> LateFusion {
    let (layers, last) = parameters.split_at(parameters.len() - 3);
    let layers: Vec<_> = layers.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    LateFusion::new(&layers, &last[0], &last[1], &last[2]).unwrap()
}

/// Returns f, and the gradients of `sum(f * noise)` in all arguments.
fn run(
    arguments: &[Tensor],
    forward: fn(&LateFusion, &Tensor, &Tensor) -> Result<Tensor>,
) -> (Tensor, Vec<Tensor>) {
    let vars: Vec<Var> = arguments.iter().map(|t| Var::from_tensor(t).unwrap()).collect();
    let tracked: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    let f = forward(&head(&tracked[2..]), &tracked[0], &tracked[1]).unwrap();
    let weights = noise_tensor(f.dims(), 99).unwrap().to_dtype(f.dtype()).unwrap();
    let gradients = (&f * weights).unwrap().sum_all().unwrap().backward().unwrap();
    (f.detach(), vars.iter().map(|v| gradients.get(v).unwrap().clone()).collect())
}

#[test]
fn it_is_the_composition_whatever_the_sizes() {
    // The cases: one row; units that fill no chunk and no vector; rows that end within a block, a word and an image; and
    // enough units and rows for several chunks, blocks and tasks.
    for (batch, count, dim, hidden, widths) in [
        (1, 1, 1, 1, &[1][..]),
        (2, 3, 3, 19, &[5, 7]),
        (3, 77, 1, 300, &[6, 20]),
        (5, 430, 2, 40, &[4]),
        (2, 4, 3, 33, &[]),
    ] {
        let all = arguments(batch, count, dim, hidden, widths);
        let (f, gradients) = run(&all, |head, a, y| head.forward(a, y));
        let (expected, expected_gradients) = run(&all, |head, a, y| head.composed(a, y));
        assert_close(&f, &expected, 1e-13);
        for (gradient, expected) in gradients.iter().zip(&expected_gradients) {
            assert_close(gradient, expected, 1e-13);
        }
        let narrow: Vec<Tensor> = all.iter().map(|t| t.to_dtype(DType::F32).unwrap()).collect();
        let (f, gradients) = run(&narrow, |head, a, y| head.forward(a, y));
        assert_close(&f.to_dtype(DType::F64).unwrap(), &expected, 1e-5);
        for (gradient, expected) in gradients.iter().zip(&expected_gradients) {
            // A unit within rounding of 0 may be open in one and closed in the other.
            assert_close(&gradient.to_dtype(DType::F64).unwrap(), expected, 1e-3);
        }
    }
}

#[test]
fn gradients_against_differences() {
    let all = arguments(2, 3, 2, 5, &[3, 4]);
    check_gradients(|t| Ok(head(&t[2..]).forward(&t[0], &t[1]).unwrap()), &all, 1e-6, 1e-7).unwrap();
}

#[test]
fn without_a_graph_it_is_the_same() {
    // Few rows and many rows have different kernels.
    for (batch, count) in [(1, 1), (3, 1), (2, 2), (5, 1), (3, 200)] {
        for (dtype, bound) in [(DType::F64, 1e-13), (DType::F32, 1e-4)] {
            let all = arguments(batch, count, 3, 270, &[6, 9]);
            let all: Vec<Tensor> = all.iter().map(|t| t.to_dtype(dtype).unwrap()).collect();
            let y = Var::from_tensor(&all[1]).unwrap();
            let head = head(&all[2..]);
            let f = head.forward(&all[0], &y).unwrap();
            let gradients = f.sum_all().unwrap().backward().unwrap();
            let (value, gradient) = head.score_and_grad(&all[0], &all[1]).unwrap();
            assert_close(&value, &f, bound);
            assert_close(&head.forward(&all[0], &all[1]).unwrap(), &f, bound);
            assert_close(&gradient, gradients.get(&y).unwrap(), bound);
        }
    }
}

/// Few candidates are scored on the CPU, many on their own device.
#[test]
fn without_a_graph_it_is_the_same_on_every_device() {
    for (batch, count) in [(2, 3), (3, 200)] {
        let all = arguments(batch, count, 3, 270, &[6, 9]);
        let expected = head(&all[2..]).score_and_grad(&all[0], &all[1]).unwrap();
        for device in devices() {
            let all: Vec<Tensor> = all.iter().map(|t| t.to_device(&device).unwrap()).collect();
            let head = head(&all[2..]);
            let (f, gradient) = head.score_and_grad(&all[0], &all[1]).unwrap();
            let again = head.forward(&all[0], &all[1]).unwrap();
            for (found, expected) in [(f, &expected.0), (again, &expected.0), (gradient, &expected.1)] {
                assert!(found.device().same_device(&device));
                assert_close(&found.to_device(&Device::Cpu).unwrap(), expected, 1e-12);
            }
            // y is tracked, and a is not.
            let y = Var::from_tensor(&all[1]).unwrap();
            let a = all[0].to_device(&Device::Cpu).unwrap();
            let f = head.forward(&a, &y).unwrap();
            assert!(f.device().same_device(&device));
            let gradients = f.sum_all().unwrap().backward().unwrap();
            let gradient = gradients.get(&y).unwrap().to_device(&Device::Cpu).unwrap();
            assert_close(&gradient, &expected.1, 1e-12);
        }
    }
}

#[test]
fn it_does_not_depend_on_the_number_of_threads() {
    let all: Vec<Tensor> =
        arguments(3, 500, 1, 300, &[4, 8]).iter().map(|t| t.to_dtype(DType::F32).unwrap()).collect();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (f, gradients) = pool.install(|| run(&all, |head, a, y| head.forward(a, y)));
        let all = std::iter::once(f).chain(gradients);
        all.map(|t| t.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn a_unit_at_zero_is_closed_and_nan_is_seen() {
    let parameters = [(1, 1), (1, 1)].map(|shape| Tensor::ones(shape, DType::F64, &Device::Cpu).unwrap());
    let bias = Tensor::zeros(1, DType::F64, &Device::Cpu).unwrap();
    let head = LateFusion::new(&[], &parameters[0], &parameters[1], &bias).unwrap();
    let y = Var::zeros((1, 1, 1), DType::F64, &Device::Cpu).unwrap();
    let a = Tensor::zeros((1, 1), DType::F64, &Device::Cpu).unwrap();
    let gradients = head.forward(&a, &y).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(largest(gradients.get(&y).unwrap()), 0.0);
    let a = (a + f64::NAN).unwrap();
    assert!(head.forward(&a, &y).unwrap().to_vec2::<f64>().unwrap()[0][0].is_nan());
    assert!(head.forward(&a, &y.detach()).unwrap().to_vec2::<f64>().unwrap()[0][0].is_nan());
}

#[test]
fn bad_arguments_are_errors() {
    let all = arguments(2, 3, 2, 5, &[3, 4]);
    let good = head(&all[2..]);
    let refused = |result: Result<Tensor>| {
        assert!(matches!(result, Err(Error::Argument { op: "late_fusion", .. })));
    };
    refused(good.forward(&all[1], &all[1]));
    refused(good.forward(&all[0], &all[0]));
    refused(good.forward(&all[0].to_dtype(DType::F32).unwrap(), &all[1]));
    refused(good.score_and_grad(&all[0], &all[0]).map(|(f, _)| f));
    let layers = [(all[2].clone(), all[3].clone())];
    assert!(LateFusion::new(&layers, &all[6], &all[7], &all[8]).is_err());
    assert!(LateFusion::new(&[], &all[6], &all[6], &all[8]).is_err());
    let empty = all[1].narrow(1, 0, 0).unwrap();
    assert_eq!(good.forward(&all[0], &empty).unwrap().dims(), [2, 0]);
    assert_eq!(good.score_and_grad(&all[0], &empty).unwrap().0.dims(), [2, 0]);
}
