//! Linear layers of one output for each row.

use candle_core::{DType, Device, Tensor};
use ebm_ops::heads::{linear_at, linear_at_gradient};
use ebm_ops::{linear, relu, relu_gradient};

use crate::differences::{devices, distance, noise_tensor};

#[test]
fn it_is_the_layer_of_all_outputs() {
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 1e-5)] {
        let tensor = |shape: &[usize], salt| noise_tensor(shape, salt).unwrap().to_dtype(dtype).unwrap();
        // More inputs than a block of a GPU has threads.
        let (x, w, bias) = (relu(&tensor(&[5, 300], 1)).unwrap(), tensor(&[4, 300], 2), tensor(&[4], 3));
        let columns = Tensor::new(&[3u32, 0, 1, 3, 2], &Device::Cpu).unwrap();
        let all = linear(&x, &w, Some(&bias)).unwrap();
        let y = all.gather(&columns.unsqueeze(1).unwrap(), 1).unwrap().squeeze(1).unwrap();
        let dx = relu_gradient(&w.index_select(&columns, 0).unwrap(), &x).unwrap();
        for device in devices() {
            let [x, w, bias, columns] =
                [&x, &w, &bias, &columns].map(|tensor| tensor.to_device(&device).unwrap());
            assert!(distance(&linear_at(&x, &w, &bias, &columns).unwrap(), &y).unwrap() < tolerance);
            assert_eq!(distance(&linear_at_gradient(&x, &w, &columns).unwrap(), &dx).unwrap(), 0.0);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (x, w, bias) = (
        noise_tensor(&[2, 3], 1).unwrap(),
        noise_tensor(&[4, 3], 2).unwrap(),
        noise_tensor(&[4], 3).unwrap(),
    );
    let columns = |columns: &[u32]| Tensor::new(columns, &Device::Cpu).unwrap();
    assert!(linear_at(&x, &w, &bias, &columns(&[0, 1])).is_ok());
    assert!(linear_at(&x, &w, &bias, &columns(&[0, 4])).is_err());
    assert!(linear_at(&x, &w, &bias, &columns(&[0])).is_err());
    assert!(linear_at(&x, &w, &bias.narrow(0, 0, 3).unwrap(), &columns(&[0, 1])).is_err());
    assert!(linear_at_gradient(&x, &x.t().unwrap(), &columns(&[0, 1])).is_err());
    assert!(linear_at_gradient(&x, &w, &columns(&[0, u32::MAX])).is_err());
    for device in devices().into_iter().skip(1) {
        let [x, w, bias, columns] =
            [&x, &w, &bias, &columns(&[0, u32::MAX])].map(|tensor| tensor.to_device(&device).unwrap());
        let y = linear_at(&x, &w, &bias, &columns).unwrap().to_vec1::<f64>().unwrap();
        assert!(y[0].is_finite() && y[1].is_nan(), "{y:?}");
        let dx = linear_at_gradient(&x, &w, &columns).unwrap().to_vec2::<f64>().unwrap();
        assert_eq!(dx[1], [0.0; 3]);
    }
}
