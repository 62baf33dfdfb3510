//! Target spaces: golden values, inverses, gradients.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{BoxSpace, EdgeSpace, Error, TargetSpace};

use crate::zoo::{assert_close, candidates, flat};

#[test]
fn golden_box() {
    // xywh (10, 20, 40, 80) with its own size as reference.
    let rect = candidates(1, &[&[10.0, 20.0, 50.0, 100.0]]);
    let space = BoxSpace::new(&rect).unwrap();
    let y = space.encode(&rect).unwrap();
    assert_close(&flat(&y), &[0.75, 0.75, 40f64.ln(), 80f64.ln()], 1e-14);

    let moved = y.broadcast_add(&Tensor::new(&[0.1, -0.05, 0.2, -0.1], &Device::Cpu).unwrap()).unwrap();
    // The centre (34, 56), and half of each side on both sides of it.
    let [w, h] = [20.0 * 0.2f64.exp(), 40.0 * (-0.1f64).exp()];
    assert_close(&flat(&space.decode(&moved).unwrap()), &[34.0 - w, 56.0 - h, 34.0 + w, 56.0 + h], 1e-14);
}

#[test]
fn one_reference_serves_all_candidates_or_each_has_its_own() {
    let boxes =
        candidates(2, &[&[0., 0., 2., 4.], &[1., 1., 5., 9.], &[3., 0., 4., 8.], &[-2., -4., 2., 4.]]);
    let shared = BoxSpace::new(&boxes.narrow(1, 0, 1).unwrap()).unwrap();
    let own = BoxSpace::new(&boxes).unwrap();
    let center = |space: &BoxSpace| flat(&space.encode(&boxes).unwrap().narrow(2, 0, 2).unwrap());
    assert_close(&center(&shared), &[0.5, 0.5, 1.5, 1.25, 3.5, 0.5, 0.0, 0.0], 1e-15);
    assert_close(&center(&own), &[0.5, 0.5, 0.75, 0.625, 3.5, 0.5, 0.0, 0.0], 1e-15);
    for space in [shared, own] {
        let back = space.decode(&space.encode(&boxes).unwrap()).unwrap();
        assert_close(&flat(&back), &flat(&boxes), 1e-14);
    }
}

#[test]
fn f32_round_trip() {
    let boxes = candidates(1, &[&[312.5f32, 7.25, 640.0, 480.0], &[1000.0, 900.0, 1003.5, 901.0]]);
    let space = BoxSpace::new(&boxes).unwrap();
    let y = space.encode(&boxes).unwrap();
    assert_eq!(y.dtype(), DType::F32);
    // log h = 6.2 is rounded by up to 2.4e-7, which is 1e-4 of a height of 470 pixels.
    let back = (space.decode(&y).unwrap() - &boxes).unwrap();
    assert_close(&flat(&back), &[0.0; 8], 3e-4);
}

#[test]
fn no_boxes_are_no_error() {
    let none = Tensor::zeros((1, 0, 4), DType::F32, &Device::Cpu).unwrap();
    let space = BoxSpace::new(&none).unwrap();
    let y = space.encode(&none).unwrap();
    assert_eq!((y.dims(), space.decode(&y).unwrap().dims()), (&[1, 0, 4][..], &[1, 0, 4][..]));
}

#[test]
fn decoding_is_differentiable() {
    let reference = candidates(1, &[&[0.0, 0.0, 3.0, 5.0]]);
    let space = BoxSpace::new(&reference).unwrap();
    let at = [0.75, 0.5, 1.0, 1.4];
    let y = Var::from_tensor(&candidates(1, &[&at])).unwrap();
    let weight = Tensor::new(&[0.3, -1.0, 2.0, 0.7], &Device::Cpu).unwrap();
    let value = |y: &Tensor| space.decode(y).unwrap().broadcast_mul(&weight).unwrap().sum_all().unwrap();
    let gradient = flat(value(&y).backward().unwrap().get(&y).unwrap());
    let numeric: Vec<f64> = (0..4)
        .map(|index| {
            let at = |delta: f64| {
                let mut moved = at;
                moved[index] += delta;
                value(&candidates(1, &[&moved])).to_scalar::<f64>().unwrap()
            };
            (at(1e-5) - at(-1e-5)) / 2e-5
        })
        .collect();
    assert_close(&gradient, &numeric, 1e-9);
}

#[test]
fn a_step_in_edge_space_moves_an_edge_by_lambda_times_its_gradient_times_the_extent() {
    let reference = candidates(1, &[&[10.0, 20.0, 50.0, 100.0]]);
    let space = EdgeSpace::new(&reference).unwrap();
    let y = space.encode(&reference).unwrap();
    assert_close(&flat(&space.decode(&y).unwrap()), &[10.0, 20.0, 50.0, 100.0], 1e-12);
    let (lambda, slope) = (0.5, candidates(1, &[&[0.02, -0.01, 0.03, 0.04]]));
    let moved = (y + (space.decode_gradient(&slope).unwrap() * lambda).unwrap()).unwrap();
    let expected = [10.0 + 0.5 * 0.02 * 40.0, 20.0 - 0.5 * 0.01 * 80.0, 50.0 + 0.5 * 0.03 * 40.0, 101.6];
    assert_close(&flat(&space.decode(&moved).unwrap()), &expected, 1e-12);
    let flat_box = candidates(1, &[&[0.0, 0.0, 0.0, 5.0]]);
    assert!(matches!(EdgeSpace::new(&flat_box), Err(Error::DegenerateBox { .. })));
}

#[test]
fn degenerate_boxes_and_wrong_shapes_have_typed_errors() {
    let good = candidates(1, &[&[0.0, 0.0, 3.0, 5.0]]);
    let space = BoxSpace::new(&good).unwrap();
    for bad in [
        [1.0, 1.0, 1.0, 2.0],
        [2.0, 0.0, 1.0, 1.0],
        [0.0, 0.0, f64::NAN, 1.0],
        [0.0, 0.0, f64::INFINITY, 1.0],
    ] {
        let boxes = candidates(1, &[&[0.0, 0.0, 1.0, 1.0], &bad]);
        assert!(matches!(BoxSpace::new(&boxes), Err(Error::DegenerateBox { index: 1, .. })));
        assert!(matches!(space.encode(&boxes), Err(Error::DegenerateBox { index: 1, .. })));
    }
    let narrow = good.narrow(2, 0, 3).unwrap();
    assert!(matches!(BoxSpace::new(&narrow), Err(Error::Shape { .. })));
    assert!(matches!(space.decode(&narrow), Err(Error::Shape { .. })));
    assert!(matches!(space.encode(&good.squeeze(0).unwrap()), Err(Error::Shape { .. })));
}

#[test]
fn the_gradient_through_decode_is_autograds() {
    let boxes =
        candidates(2, &[&[0., 0., 2., 4.], &[1., 1., 5., 9.], &[3., 0., 4., 8.], &[-2., -4., 2., 4.]]);
    let corners =
        candidates(2, &[&[1., -2., 3., 0.5], &[0.3, 1., -1., 2.], &[2., 2., 1., -1.], &[0., 1., 1., 0.]]);
    for space in [BoxSpace::new(&boxes.narrow(1, 0, 1).unwrap()).unwrap(), BoxSpace::new(&boxes).unwrap()] {
        let y = Var::from_tensor(&space.encode(&boxes).unwrap()).unwrap();
        let carrier = (space.decode(&y).unwrap() * &corners).unwrap().sum_all().unwrap();
        let gradients = carrier.backward().unwrap();
        let found = space.decode_gradient(&y.as_detached_tensor(), &corners).unwrap();
        assert_close(&flat(&found), &flat(gradients.get(&y).unwrap()), 1e-12);
    }
}
