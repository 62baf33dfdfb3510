//! ReLU and ReLU6.

use candle_core::{Tensor, Var};
use ebm_ops::{Activation, relu};

use crate::differences::devices;

#[test]
fn values_and_derivatives_are_torchs() {
    let data = [-1.5, 0., 2., f64::NAN];
    for device in devices() {
        let x = Var::new(&data[..3], &device).unwrap();
        let y = relu(&x).unwrap();
        assert_eq!(y.to_vec1::<f64>().unwrap(), [0., 0., 2.]);
        let grads = (y * 3.).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().to_vec1::<f64>().unwrap(), [0., 0., 3.]);
        let y = relu(&Tensor::new(&data, &device).unwrap()).unwrap().to_vec1::<f64>().unwrap();
        assert!(y[3].is_nan());
    }
}

#[test]
fn a_sum_passes_its_gradient_to_both() {
    for device in devices() {
        let a = Var::new(&[[1f32, -2.], [3., 1.]], &device).unwrap();
        let b = Var::new(&[[1f32, 5.], [-4., -1.]], &device).unwrap();
        let y = Activation::Relu.apply(&a.t().unwrap(), Some(&b.t().unwrap())).unwrap();
        assert_eq!(y.to_vec2::<f32>().unwrap(), [[2., 0.], [3., 0.]]);
        let grads = y.sum_all().unwrap().backward().unwrap();
        for var in [&a, &b] {
            assert_eq!(grads.get(var).unwrap().to_vec2::<f32>().unwrap(), [[1., 1.], [0., 0.]]);
        }
        assert!(Activation::Relu.apply(&a, Some(&b.get(0).unwrap())).is_err());
    }
}

#[test]
fn relu6_is_flat_at_both_ends() {
    for device in devices() {
        let x = Var::new(&[-1.5f64, 0., 2., 6., 7.], &device).unwrap();
        let y = Activation::Relu6.apply(&x, None).unwrap();
        assert_eq!(y.to_vec1::<f64>().unwrap(), [0., 0., 2., 6., 6.]);
        // torch.nn.functional.hardtanh has the derivative 0 at its bounds.
        let grads = (y * 3.).unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().to_vec1::<f64>().unwrap(), [0., 0., 3., 0., 0.]);
    }
}
