//! The box head without anything to score.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_detect::config::{ExperimentConfig, Settings};
use ebm_detect::{BoxHead, ForegroundPool, Objects};
use ebm_nn::params::ParamStore;

#[test]
fn images_without_proposals_or_objects_are_no_error() {
    let (config, device) = (ExperimentConfig::embedded("mini").unwrap().detector, Device::Cpu);
    let store = ParamStore::new(Key::new(1));
    let head = BoxHead::new(&config, store.var_builder(DType::F32, &device)).unwrap();
    let level = |side| Tensor::zeros((2, config.backbone.fpn_channels, side, side), DType::F32, &device);
    let pyramid: Vec<Tensor> = [40, 20, 10, 5].map(|side| level(side).unwrap()).to_vec();
    let scored = head.score(&pyramid, &[vec![], vec![]]).unwrap();
    let offsets = head.offsets(&scored).unwrap();
    assert_eq!(head.candidates(&scored, &offsets, &[(160, 160); 2]), [vec![], vec![]]);

    let pool = head.foreground(&pyramid, 0, &[], &Objects::default()).unwrap();
    let sample = ForegroundPool::sample(&[&pool], &mut Key::new(2).rng()).unwrap();
    assert_eq!((sample.labels.len(), sample.hidden.dim(0).unwrap(), sample.sample_size), (0, 0, 0));
}
