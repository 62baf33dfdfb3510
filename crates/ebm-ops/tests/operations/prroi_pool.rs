//! Gradients of PrRoIPool, and several levels at once.

use candle_core::{DType, Device, Result, Tensor, Var};
use ebm_ops::nhwc::{ChannelsLast, channels_last};
use ebm_ops::roi::{Levels, Pyramid, prroi_pool};

use crate::differences::{check_devices, check_gradients, devices, distance, noise_tensor};

/// Makes rows (image, x0, y0, x1, y1) from coordinates (R, 4), with the images 0 and 1 in turn.
fn with_images(coordinates: &Tensor) -> Result<Tensor> {
    let boxes = coordinates.dim(0)?;
    let images: Vec<f64> = (0..boxes).map(|i| (i % 2) as f64).collect();
    let images = Tensor::from_vec(images, (boxes, 1), coordinates.device())?.to_dtype(coordinates.dtype())?;
    Tensor::cat(&[&images, coordinates], 1)
}

/// Returns boxes inside the map, across each border, below a pixel in size, and larger than the map.
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

/// Compares in f32, with both layouts of the map, more channels than one thread adds up, and only boxes that the CPU accepts.
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

/// Returns rows (level, image, x0, y0, x1, y1) on two levels and two images: large boxes, small boxes, and one without area.
fn rows_on_levels(dtype: DType) -> Tensor {
    let rows: [[f64; 6]; 8] = [
        [0.0, 1.0, -5.0, -3.0, 170.0, 30.0],
        [1.0, 1.0, 1.0, -4.0, 15.0, 900.0],
        [1.0, 1.0, 3.0, 4.5, 20.0, 17.0],
        [0.0, 0.0, -2.0, 5.0, 30.0, 36.0],
        [0.0, 0.0, 9.0, 9.0, 9.0, 12.0],
        [1.0, 1.0, 7.0, 1.0, 12.5, 22.0],
        [0.0, 1.0, 3.1, 2.2, 3.3, 2.9],
        [1.0, 0.0, -900.0, -400.0, 700.0, 800.0],
    ];
    Tensor::new(&rows, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// Returns maps with more pixels along an axis than a block of a GPU holds weights for at a time.
fn maps_of_levels(channels: usize, dtype: DType) -> [Tensor; 2] {
    [([2, channels, 11, 80], 7), ([2, channels, 70, 5], 8)]
        .map(|(shape, salt)| noise_tensor(&shape, salt).unwrap().to_dtype(dtype).unwrap())
}

#[test]
fn several_levels_at_once_are_pooled_as_one_by_one() {
    let (out, scales, channels, dtype) = ((3, 2), [0.5, 0.25], 3, DType::F64);
    let (maps, rows) = (maps_of_levels(channels, dtype), rows_on_levels(dtype));
    let levels = Levels::new(&[(&maps[0], scales[0]), (&maps[1], scales[1])], out).unwrap();
    let pooled = levels.pool(&rows).unwrap();
    let grad = noise_tensor(pooled.dims(), 9).unwrap();
    let slopes = levels.box_gradient(&rows, &grad).unwrap();
    for (r, row) in rows.to_vec2::<f64>().unwrap().into_iter().enumerate() {
        let level = row[0] as usize;
        let roi = Var::from_tensor(&rows.narrow(0, r, 1).unwrap().narrow(1, 1, 5).unwrap()).unwrap();
        let bins_outside =
            |one: Tensor| one.reshape((channels, 6)).unwrap().t().unwrap().flatten_all().unwrap();
        let one = bins_outside(prroi_pool(&maps[level], &roi, out, scales[level]).unwrap());
        assert_eq!(pooled.get(r).unwrap().to_vec1::<f64>().unwrap(), one.to_vec1::<f64>().unwrap());
        let sum = (one * grad.get(r).unwrap()).unwrap().sum_all().unwrap();
        let one = sum.backward().unwrap().get(&roi).unwrap().get(0).unwrap();
        let one = one.narrow(0, 1, 4).unwrap().to_vec1::<f64>().unwrap();
        let found = slopes.get(r).unwrap().to_vec1::<f64>().unwrap();
        assert!(found.iter().zip(&one).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {one:?}");
    }
}

#[test]
fn several_levels_are_the_same_on_every_device() {
    // More bins in a row than a block has at a time, and more channels than it has threads.
    for (dtype, channels, out, tolerance) in [
        (DType::F64, 3, (7, 7), 1e-12),
        (DType::F64, 3, (1, 11), 1e-12),
        (DType::F32, 3, (2, 19), 2e-5),
        (DType::F32, 300, (7, 7), 2e-4),
    ] {
        let (maps, rows) = (maps_of_levels(channels, dtype), rows_on_levels(dtype));
        let run = |device: &Device| {
            let maps = maps.each_ref().map(|map| map.to_device(device).unwrap());
            let rows = rows.to_device(device).unwrap();
            let levels = Levels::new(&[(&maps[0], 0.5), (&maps[1], 0.25)], out).unwrap();
            let pooled = levels.pool(&rows).unwrap();
            let grad = noise_tensor(pooled.dims(), 9).unwrap().to_dtype(dtype).unwrap();
            let slopes = levels.box_gradient(&rows, &grad.to_device(device).unwrap()).unwrap();
            [pooled, slopes].map(|t| t.to_device(&Device::Cpu).unwrap())
        };
        let expected = run(&Device::Cpu);
        for device in devices() {
            for (found, expected) in run(&device).iter().zip(&expected) {
                assert!(distance(found, expected).unwrap() < tolerance, "{dtype:?} {channels}");
            }
        }
    }
}

#[test]
fn levels_refuse_what_does_not_fit() {
    let (maps, rows) = (maps_of_levels(3, DType::F64), rows_on_levels(DType::F64));
    let of = |maps: &[(&Tensor, f64)]| Levels::new(maps, (2, 2));
    let levels = of(&[(&maps[0], 0.5), (&maps[1], 0.25)]).unwrap();
    assert!(of(&[]).is_err() && of(&[(&maps[0], 0.5); 5]).is_err() && of(&[(&maps[0], 0.0)]).is_err());
    assert!(of(&[(&maps[0], 0.5), (&maps[1].narrow(0, 0, 1).unwrap(), 0.25)]).is_err());
    assert!(levels.pool(&rows.narrow(1, 0, 5).unwrap()).is_err());
    assert!(levels.box_gradient(&rows, &rows).is_err());
    for number in [-1.0, 0.5, 2.0, f64::NAN] {
        let row = Tensor::new(&[[number, 0.0, 1.0, 1.0, 2.0, 2.0]], &Device::Cpu).unwrap();
        assert!(levels.pool(&row).is_err(), "{number}");
        // On a GPU such a row reads nothing.
        for device in devices().into_iter().skip(1) {
            let maps = maps.each_ref().map(|map| map.to_device(&device).unwrap());
            let levels = of(&[(&maps[0], 0.5), (&maps[1], 0.25)]).unwrap();
            let pooled = levels.pool(&row.to_device(&device).unwrap()).unwrap();
            assert_eq!(distance(&pooled, &pooled.zeros_like().unwrap()).unwrap(), 0.0);
        }
    }
}

fn map(side: usize, seed: u64) -> ChannelsLast<'static, f64> {
    let data: Vec<f64> =
        noise_tensor(&[2, side, side, 3], seed).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    ChannelsLast::new(data, (2, 3, side, side)).unwrap()
}

#[test]
fn bad_arguments_are_errors() {
    assert!(Pyramid::new(vec![(map(16, 1), 0.0)], (7, 7)).is_err());
    assert!(Pyramid::<f64>::new(vec![], (7, 7)).is_err());
    let pyramid = Pyramid::new(vec![(map(16, 1), 0.5)], (1, 1)).unwrap();
    let pool = |rois: &[f64], levels: &[usize], len: usize| pyramid.pool(rois, levels, &mut vec![0.0; len]);
    assert!(pool(&[0.0, 1.0, 1.0, 2.0, 2.0], &[0], 3).is_ok());
    assert!(pool(&[0.0, 1.0, 1.0, 2.0, 2.0], &[1], 3).is_err());
    assert!(pool(&[0.0, 1.0, 1.0, 2.0, 2.0], &[], 3).is_err());
    assert!(pool(&[0.0, 1.0, 1.0, 2.0, 2.0], &[0], 4).is_err());
    assert!(pool(&[2.0, 1.0, 1.0, 2.0, 2.0], &[0], 3).is_err());
    assert!(pool(&[0.0, f64::NAN, 1.0, 2.0, 2.0], &[0], 3).is_err());
}
