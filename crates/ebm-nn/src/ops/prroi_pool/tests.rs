use candle_core::{DType, Device, Result, Tensor, Var};

use super::super::testing::{check_devices, check_gradients, noise_tensor};
use super::super::{channels_last, prroi_pool};

/// Rows (image, x0, y0, x1, y1) from coordinates (R, 4), the images being 0 and 1 in turn.
fn with_images(coordinates: &Tensor) -> Result<Tensor> {
    let boxes = coordinates.dim(0)?;
    let images: Vec<f64> = (0..boxes).map(|i| (i % 2) as f64).collect();
    let images = Tensor::from_vec(images, (boxes, 1), coordinates.device())?.to_dtype(coordinates.dtype())?;
    Tensor::cat(&[&images, coordinates], 1)
}

/// Inside, across each border, sub-pixel, larger than the map.
fn coordinates() -> Result<Tensor> {
    let rows: [[f64; 4]; 6] = [
        [1.3, 2.2, 11.7, 9.4],
        [-3.3, 4.1, 5.2, 17.9],
        [4.13, 3.21, 4.37, 3.33],
        [9.1, -2.7, 19.3, 6.6],
        [-7.7, -6.1, 23.9, 21.3],
        [0.9, 0.7, 15.1, 2.3],
    ];
    Tensor::new(&rows, &Device::Cpu)
}

#[test]
fn gradients_in_the_map_and_the_coordinates() {
    let features = noise_tensor(&[2, 3, 6, 7], 1).unwrap();
    let op = |inputs: &[Tensor]| {
        prroi_pool(&inputs[0], &with_images(&inputs[1])?, (3, 2), 0.5).map_err(candle_core::Error::wrap)
    };
    check_gradients(op, &[features, coordinates().unwrap()], 1e-6, 1e-6).unwrap();
}

#[test]
fn gradients_through_channels_last() {
    let features = noise_tensor(&[2, 3, 6, 7], 2).unwrap();
    let op = |inputs: &[Tensor]| {
        let map = channels_last(&inputs[0]).map_err(candle_core::Error::wrap)?;
        prroi_pool(&map, &with_images(&inputs[1])?, (2, 2), 0.5).map_err(candle_core::Error::wrap)
    };
    check_gradients(op, &[features, coordinates().unwrap()], 1e-6, 1e-6).unwrap();
}

#[test]
fn gradients_are_made_only_for_what_is_tracked() {
    let features = noise_tensor(&[2, 3, 6, 7], 3).unwrap();
    let rois = with_images(&coordinates().unwrap()).unwrap();
    let tracked = Var::from_tensor(&rois).unwrap();
    let out = prroi_pool(&features, &tracked, (2, 2), 0.5).unwrap();
    let grads = out.sum_all().unwrap().backward().unwrap();
    assert!(grads.get(&tracked).is_some() && grads.get(&features).is_none());
    let map = Var::from_tensor(&features).unwrap();
    let out = prroi_pool(&map, &rois, (2, 2), 0.5).unwrap();
    let grads = out.sum_all().unwrap().backward().unwrap();
    assert!(grads.get(&map).is_some() && grads.get(&rois).is_none());
    assert!(!prroi_pool(&features, &rois, (2, 2), 0.5).unwrap().track_op());
}

#[test]
fn single_precision_agrees_with_double() {
    let run = |dtype: DType| {
        let features =
            Var::from_tensor(&noise_tensor(&[2, 19, 6, 7], 4).unwrap().to_dtype(dtype).unwrap()).unwrap();
        let rois = with_images(&coordinates().unwrap()).unwrap().to_dtype(DType::F32).unwrap();
        let rois = Var::from_tensor(&rois.to_dtype(dtype).unwrap()).unwrap();
        let out = prroi_pool(&features, &rois, (7, 7), 0.5).unwrap();
        let weights = noise_tensor(out.dims(), 5).unwrap().to_dtype(dtype).unwrap();
        let grads = (&out * weights).unwrap().sum_all().unwrap().backward().unwrap();
        let flat =
            |t: &Tensor| t.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        [flat(&out), flat(grads.get(&features).unwrap()), flat(grads.get(&rois).unwrap())]
    };
    let (single, double) = (run(DType::F32), run(DType::F64));
    for (name, (a, b)) in ["out", "features", "rois"].iter().zip(single.iter().zip(&double)) {
        let scale = b.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            assert!((a - b).abs() < 2e-6 * scale, "{name} {i}: {a} against {b}");
        }
    }
}

/// In f32, with both layouts of the map, more channels than one thread adds up, and boxes that the CPU
/// refuses not among them.
#[test]
fn devices_agree_in_single_precision() {
    let features = noise_tensor(&[2, 19, 6, 7], 6).unwrap().to_dtype(DType::F32).unwrap();
    let coordinates = coordinates().unwrap().to_dtype(DType::F32).unwrap();
    for last in [false, true] {
        let op = |inputs: &[Tensor]| {
            let map = if last { channels_last(&inputs[0]).unwrap() } else { inputs[0].clone() };
            Ok(prroi_pool(&map, &with_images(&inputs[1])?, (5, 3), 0.5).unwrap())
        };
        check_devices(op, &[features.clone(), coordinates.clone()], 1e-5).unwrap();
    }
}
