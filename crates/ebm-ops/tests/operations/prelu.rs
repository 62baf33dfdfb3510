//! PReLU.

use candle_core::{DType, Device, Result as CandleResult, Tensor, Var};
use ebm_ops::internals::prelu_in_place;
use ebm_ops::{Error, prelu};

use crate::differences::{check_devices, check_gradients, distance, noise_tensor};

fn wrapped(t: &[Tensor]) -> CandleResult<Tensor> {
    prelu(&t[0], &t[1]).map_err(candle_core::Error::wrap)
}

#[test]
fn values_and_derivatives_are_torchs() {
    // torch.nn.functional.prelu: the derivative in x at 0 is the slope, and the derivative in the slope at 0 is 0.
    let x = Var::new(&[[-2., 3.], [0., -1.], [f64::NAN, 1.]], &Device::Cpu).unwrap();
    let slope = Var::new(&[0.5, -2.], &Device::Cpu).unwrap();
    let y = prelu(&x, &slope).unwrap();
    let found = y.to_vec2::<f64>().unwrap();
    assert_eq!(found[..2], [[-1., 3.], [0., 2.]]);
    assert!(found[2][0].is_nan());
    let y = y.narrow(0, 0, 2).unwrap();
    let grads = y.sum_all().unwrap().backward().unwrap();
    assert_eq!(grads.get(&x).unwrap().to_vec2::<f64>().unwrap()[..2], [[0.5, 1.], [0.5, -2.]]);
    let x = x.narrow(0, 0, 2).unwrap().detach();
    let grads = prelu(&x, &slope).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(grads.get(&slope).unwrap().to_vec1::<f64>().unwrap(), [-2., -1.]);
}

#[test]
fn gradients_are_those_of_differences() {
    // More rows than a block has.
    for shape in [&[2, 3, 5, 4][..], &[7, 17], &[70, 1], &[3]] {
        let x = noise_tensor(shape, 1).unwrap();
        let slope = noise_tensor(&shape[shape.len() - 1..], 2).unwrap();
        check_gradients(wrapped, &[x, slope], 1e-6, 1e-8).unwrap();
    }
}

#[test]
fn in_its_place_and_in_single_precision_it_is_the_same() {
    let (x, slope) = (noise_tensor(&[3, 50, 24], 1).unwrap(), noise_tensor(&[24], 2).unwrap());
    let expected = prelu(&x, &slope).unwrap();
    let [x, slope] = [x, slope].map(|t| t.to_dtype(DType::F32).unwrap());
    check_devices(wrapped, &[x.clone(), slope.clone()], 1e-6).unwrap();
    let copy = x.copy().unwrap();
    assert!(distance(&prelu_in_place(copy, &slope).unwrap(), &expected).unwrap() < 1e-6);
    let strided = x.transpose(0, 1).unwrap();
    let found = prelu_in_place(strided, &slope).unwrap().transpose(0, 1).unwrap();
    assert!(distance(&found, &expected).unwrap() < 1e-6);
    let narrow = prelu(&x.to_dtype(DType::BF16).unwrap(), &slope).unwrap();
    assert_eq!(narrow.dtype(), DType::BF16);
    assert!(distance(&narrow, &expected).unwrap() < 1e-2);
    let of_variable = prelu_in_place(Var::from_tensor(&x).unwrap().as_tensor().clone(), &slope).unwrap();
    assert!(of_variable.track_op() && distance(&of_variable, &expected).unwrap() < 1e-6);
}

#[test]
fn slopes_of_other_channels_or_types_are_refused() {
    let t = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &Device::Cpu).unwrap();
    let x = t(&[2, 3], DType::F32);
    for slope in [t(&[2], DType::F32), t(&[1, 3], DType::F32), t(&[3], DType::F64)] {
        assert!(matches!(prelu(&x, &slope), Err(Error::Argument { op: "prelu", .. })));
        assert!(prelu_in_place(x.copy().unwrap(), &slope).is_err());
    }
    assert!(prelu(&t(&[], DType::F32), &t(&[1], DType::F32)).is_err());
    let whole = t(&[2, 3], DType::U8);
    assert!(prelu(&whole, &t(&[3], DType::U8)).unwrap_err().to_string().contains("f32 or all f64"));
}
