//! Frame of the tracker.

use anyhow::{Context, Result};
use ebm_base::Key;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_track::box_module::{BoxModule, BoxModuleConfig, BoxNetwork};
use ebm_track::config::{ExperimentConfig, Settings};
use ebm_track::tracker::{BoxConfig, refine_box};
use ebm_track::{Backbone, Classifier, ClassifierConfig};

use super::resnet::images;
use super::{Place, Run};
use crate::work::{Images, Size};

/// Number of the ResNet's stages that the tracker uses.
const STAGES: usize = 3;

/// Prepares features, scores, maps of the box module and refined boxes, for a target in the middle of a crop.
pub fn frame(place: &Place<'_>, side: usize, boxes: usize, steps: usize) -> Result<Run> {
    place.freeze();
    let vb = place.var_builder();
    // This puts the parameters into the store, where the backbone finds them.
    ResNet::new(&ResNetConfig::resnet18(Norm::Frozen { eps: 1e-5 }).up_to(STAGES), vb.pp("backbone"))?;
    let backbone = Backbone::of_store(&place.store, "backbone.", place.device)?;
    let crop = images(place, Images { batch: 1, size: Size { height: side, width: side } })?;
    let target = side as f64 / 5.0;
    let start = [(side as f64 - target) / 2.0, (side as f64 - target) / 2.0, target, target];

    let seen = backbone.features(&crop)?;
    let views = Classifier::normalised(&seen.layer3)?;
    // The time of a score does not depend on the quality of the classifier.
    let config = ClassifierConfig { first_steps: 1, first_iterations: 1, ..ClassifierConfig::default() };
    let mut rng = Key::new(0).split("classifier").rng();
    let classifier = Classifier::new(&config, &views, &[[0.0; 2]], target / 16.0, &mut rng)?;
    let module = BoxModule::new(&BoxModuleConfig::atom(backbone.channels()), vb.pp("boxes"))?;
    let reference = candle_core::Tensor::new(&[start.map(|number| number as f32)], place.device)?;
    let modulation = module.modulation(&seen, &reference)?.detach();

    let methods = ExperimentConfig::embedded("paper")?.methods;
    let method = methods.into_iter().find(|method| method.key == "ebm").context("the tracker has no EBM")?;
    let refinement = ebm_track::Refinement { steps, ..method.refinement };
    let random = BoxConfig { random: boxes - 1, ..BoxConfig::default() };
    let device = place.device.clone();
    Ok(Box::new(move || {
        let seen = backbone.features(&crop)?;
        let scores = classifier.scores(&classifier.project(&seen.layer3)?)?;
        let features = module.test_features(&seen, &modulation)?.detach();
        let mut rng = Key::new(0).split("boxes").rng();
        let refined = refine_box(&module, features, start, &refinement, &random, &device, &mut rng)?;
        Ok(Box::new((scores, refined)))
    }))
}
