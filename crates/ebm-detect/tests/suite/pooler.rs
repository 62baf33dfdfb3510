//! Levels that boxes are pooled from.

use candle_core::{DType, Device, Tensor};
use ebm_detect::config::{ExperimentConfig, Settings};
use ebm_detect::{Pooler, Pooling};

fn pooler(pooling: Pooling) -> Pooler {
    Pooler::new(&ExperimentConfig::embedded("torchvision").unwrap().detector, pooling)
}

#[test]
fn golden_levels() {
    let pooler = pooler(Pooling::PrRoi);
    let levels = [32., 111., 112., 224., 448., 447.].map(|side| pooler.level(&[0., 0., side, side]) + 2);
    assert_eq!(levels, [2, 2, 3, 4, 5, 4]);
    assert_eq!(pooler.level(&[0., 0., 1e30, 1e30]), 3);
    assert_eq!(pooler.level(&[5., 5., 1., 1.]), 0);
}

#[test]
fn golden_levels_of_inclusive_boxes() {
    // A box from pixel 0 to pixel n - 1 has n pixels.
    let pooler = Pooler::new(&ExperimentConfig::embedded("paper").unwrap().detector, Pooling::RoiAlign(2));
    let levels = [32., 111., 112., 224., 448., 447.]
        .map(|side: f32| pooler.level(&[5., 9., 5. + side - 1., 9. + side - 1.]) + 2);
    assert_eq!(levels, [2, 2, 3, 4, 5, 4]);
}

#[test]
fn rows_are_found_again_whatever_their_level() {
    let device = Device::Cpu;
    // Each level is constant, so a pooled box shows which level it came from.
    let pyramid: Vec<Tensor> = (0..4)
        .map(|l| {
            (Tensor::ones((1, 2, 256 >> l, 256 >> l), DType::F32, &device).unwrap() * f64::from(l)).unwrap()
        })
        .collect();
    let boxes = Tensor::new(
        &[[8f32, 8., 600., 600.], [8., 8., 40., 40.], [8., 8., 130., 130.], [8., 8., 44., 44.]],
        &device,
    )
    .unwrap();
    for pooling in [Pooling::PrRoi, Pooling::RoiAlign(2)] {
        let pooled = pooler(pooling).pool(&pyramid, &boxes, &[0; 4]).unwrap();
        let position = Tensor::new(pooled.position, &device).unwrap();
        let restored = pooled.features.index_select(&position, 0).unwrap();
        let first = restored.flatten_from(1).unwrap().mean(1).unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(first.iter().map(|v| v.round() as i32).collect::<Vec<_>>(), [3, 0, 1, 0]);
    }
}

#[test]
fn no_boxes_pool_to_no_rows() {
    let pyramid = vec![Tensor::zeros((1, 2, 8, 8), DType::F32, &Device::Cpu).unwrap(); 4];
    let boxes = Tensor::zeros((0, 4), DType::F32, &Device::Cpu).unwrap();
    let pooled = pooler(Pooling::PrRoi).pool(&pyramid, &boxes, &[]).unwrap();
    assert_eq!(pooled.features.dims(), [0, 2 * 7 * 7]);
}
