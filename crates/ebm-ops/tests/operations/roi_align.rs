//! RoIAlign against torchvision (golden/roi_torchvision.py).

use candle_core::{DType, Device, Tensor, Var};
use ebm_ops::nhwc::channels_last;
use ebm_ops::roi::roi_align;

use crate::common::{golden, largest};

#[test]
fn values_and_map_gradients_are_torchvisions() {
    let golden = golden("roi_torchvision");
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 2e-6)] {
        let get = |name: &str| golden[name].to_dtype(dtype).unwrap();
        let (rois, weight) = (get("rois"), get("weight"));
        for ratio in 0..4 {
            for aligned in [false, true] {
                let name = format!("roi_align.{ratio}.{}", u8::from(aligned));
                let features = Var::from_tensor(&get("features")).unwrap();
                let out = roi_align(&features, &rois, (3, 2), 0.5, ratio, aligned).unwrap();
                let grads = (&out * &weight).unwrap().sum_all().unwrap().backward().unwrap();
                let off = largest(&(&out - get(&format!("{name}.out"))).unwrap());
                assert!(off < tolerance, "{name}, {dtype:?}: output off by {off}");
                let expected = get(&format!("{name}.grad"));
                assert!(largest(&expected) > 0.1);
                let off = largest(&(grads.get(&features).unwrap() - expected).unwrap());
                assert!(off < 10.0 * tolerance, "{name}, {dtype:?}: gradient off by {off}");
                let last = roi_align(&channels_last(&features).unwrap(), &rois, (3, 2), 0.5, ratio, aligned)
                    .unwrap();
                assert_eq!(largest(&(last - out).unwrap()), 0.0, "{name}");
            }
        }
    }
}

#[test]
fn tracked_boxes_get_a_zero_gradient() {
    let golden = golden("roi_torchvision");
    let rois = Var::from_tensor(&golden["rois"]).unwrap();
    // An intermediate: candle fails where such an argument gets none.
    let shifted = (rois.as_tensor() * 1.0).unwrap();
    let out = roi_align(&golden["features"], &shifted, (3, 2), 0.5, 2, false).unwrap();
    let grads = out.sum_all().unwrap().backward().unwrap();
    assert_eq!(largest(grads.get(&rois).unwrap()), 0.0);
}

/// By hand, on the map 4y + x: the average is the map's value at the box's middle. maskrcnn-benchmark does
/// not shift by half a pixel, and gives a box at least one pixel of extent.
#[test]
fn the_older_convention_is_not_shifted() {
    let map: Vec<f64> = (0..100).map(|i| f64::from(4 * (i / 10) + i % 10)).collect();
    let map = Tensor::from_vec(map, (1, 1, 10, 10), &Device::Cpu).unwrap();
    let rois = Tensor::new(&[[0f64, 0., 0., 7., 7.], [0., 2., 2., 2., 2.]], &Device::Cpu).unwrap();
    let pooled = |aligned| {
        let out = roi_align(&map, &rois, (1, 1), 1.0, 2, aligned).unwrap();
        out.flatten_all().unwrap().to_vec1::<f64>().unwrap()
    };
    assert_eq!(pooled(false), [17.5, 12.5]);
    assert_eq!(pooled(true), [15.0, 7.5]);
}
