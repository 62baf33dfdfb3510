//! Gradients through kernels and operations of candle, by both backward passes.

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use ebm_ops::{Activation, backward, nhwc, prelu, relu};

use crate::differences::{check_devices, check_gradients, devices, distance, noise_tensor};

fn var(shape: &[usize], salt: u64) -> Var {
    var_on(&Device::Cpu, shape, salt)
}

fn var_on(device: &Device, shape: &[usize], salt: u64) -> Var {
    Var::from_tensor(&noise_tensor(shape, salt).unwrap().to_device(device).unwrap()).unwrap()
}

/// Applies kernels and candle's operations in turn. Both use x, w and intermediate results, more than once.
fn mixed(x: &Tensor, w: &Tensor) -> Tensor {
    let wide = x.unsqueeze(0).unwrap().unsqueeze(0).unwrap();
    let kernel = w.unsqueeze(2).unwrap().unsqueeze(3).unwrap();
    let y = nhwc::conv2d(&wide, &kernel, None, 1, 0).unwrap().squeeze(0).unwrap().squeeze(0).unwrap();
    let r = relu(&y).unwrap();
    let sum = Activation::Relu.apply(&r, Some(&y)).unwrap();
    let both = Activation::Relu.apply(&sum, Some(&sum)).unwrap();
    let product = (both * &r).unwrap();
    let again = Activation::Relu.apply(&product, Some(&relu(x).unwrap())).unwrap();
    ((again + y.sqr().unwrap()).unwrap() + relu(w).unwrap().matmul(w).unwrap()).unwrap()
}

#[test]
fn kernels_and_other_operations_share_gradients() {
    let inputs = [noise_tensor(&[4, 4], 1).unwrap(), noise_tensor(&[4, 4], 2).unwrap()];
    check_gradients(|t| Ok(mixed(&t[0], &t[1])), &inputs, 1e-5, 1e-7).unwrap();
    check_devices(|t| Ok(mixed(&t[0], &t[1])), &inputs, 1e-12).unwrap();
    // The backward pass of candle and of this crate, once and again.
    for device in devices() {
        let (x, w) = (var_on(&device, &[4, 4], 1), var_on(&device, &[4, 4], 2));
        let loss = mixed(&x, &w).sum_all().unwrap();
        let expected = loss.backward().unwrap();
        for _ in 0..2 {
            let found = backward(&loss).unwrap();
            for var in [&x, &w] {
                let (found, expected) = (found.get(var).unwrap(), expected.get(var).unwrap());
                assert!(distance(found, expected).unwrap() < 1e-14);
            }
        }
    }
}

#[test]
fn a_gradient_of_a_variable_is_not_added_to_zeros() {
    // A negative zero stays negative only if no zero is added to it.
    let x = Var::new(&[-1.0f64, -2.0], &Device::Cpu).unwrap();
    let slope = Tensor::new(&[-1.0f64, -1.0], &Device::Cpu).unwrap();
    let zero = Tensor::new(0.0f64, &Device::Cpu).unwrap();
    let loss = (prelu(&x, &slope).unwrap().sum_all().unwrap() * zero).unwrap();
    let signs = |gradients: GradStore| {
        let gradient = gradients.get(&x).unwrap().to_vec1::<f64>().unwrap();
        gradient.iter().map(|value| value.is_sign_negative()).collect::<Vec<_>>()
    };
    assert_eq!(signs(backward(&loss).unwrap()), [true; 2]);
    assert_eq!(signs(loss.backward().unwrap()), [false; 2]);
}

#[test]
fn threads_may_go_back_through_the_same_graph() {
    let (x, w) = (var(&[4, 4], 1), var(&[4, 4], 2));
    let loss = mixed(&x, &w).sum_all().unwrap();
    let expected = loss.backward().unwrap().get(&w).unwrap().to_vec2::<f64>().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let found = loss.backward().unwrap().get(&w).unwrap().to_vec2::<f64>().unwrap();
                    assert_eq!(found, expected);
                }
            });
        }
    });
}
