//! Predictions with an energy: refinement of boxes, and a detector and an age network with and without it.

use anyhow::Result;
use candle_core::Tensor;
use ebm_base::Key;
use ebm_core::parametric::{Baseline, Direct, DirectLoss, Parametric};
use ebm_core::{GradientAscent, StepRule, refine};
use ebm_detect::config::{DetectorConfig, ExperimentConfig, Settings};
use ebm_detect::{BoxFeatures, EnergyHead, FasterRcnn, ImageBatch};
use ebm_face::{Backbone, BaselineHead, EnergyHeadConfig, ResNetBackbone, ResNetBackboneConfig};
use ebm_nn::init;
use ebm_nn::params::VarBuilder;
use ebm_ops::boxes::BBox;
use rand::Rng;

use super::resnet::images;
use super::{Place, Run};
use crate::work::{Climb, Images, Size, Widths};

/// Strides of P2 to P6.
const STRIDES: [usize; 5] = [4, 8, 16, 32, 64];
/// Step lengths that move a box a little and never end the ascent early.
const BOX_STEPS: [f64; 4] = [1e-3, 1e-3, 4e-3, 4e-3];
/// Step length for age, the paper's.
const AGE_STEP: f64 = 3.0;
/// Age at which refinement begins, since the network is not trained.
const AGE: f64 = 35.0;

/// Returns the configuration of torchvision's detector with these widths.
pub fn config(Widths { channels, hidden }: Widths) -> Result<DetectorConfig> {
    let mut config = ExperimentConfig::embedded("torchvision")?.detector;
    (config.backbone.fpn_channels, config.roi.representation) = (channels, hidden);
    Ok(config)
}

/// Returns the gradient ascent of Algorithm S1.
fn ascent(steps: usize) -> GradientAscent {
    GradientAscent { steps, step_length: BOX_STEPS.to_vec(), decay: 0.5, rule: StepRule::Backtracking }
}

/// Draws boxes of all sizes and their classes.
pub fn boxes(count: usize, Size { height, width }: Size, classes: usize) -> (Vec<BBox>, Vec<u32>) {
    let mut rng = Key::new(0).split("boxes").rng();
    let mut one = || {
        let mut side = |size: usize| rng.random_range(0.02..0.5f32) * size as f32;
        let (w, h) = (side(width), side(height));
        let (x, y) = (
            rng.random_range(0.0..1.0) * (width as f32 - w),
            rng.random_range(0.0..1.0) * (height as f32 - h),
        );
        ([x, y, x + w, y + h], rng.random_range(1..classes as u32))
    };
    (0..count).map(|_| one()).unzip()
}

/// Returns random maps P2 to P6 for images of this size, each `(images, channels, H, W)`.
pub fn pyramid(
    vb: &VarBuilder<'_>,
    images: usize,
    channels: usize,
    size: Size,
) -> candle_core::Result<Vec<Tensor>> {
    let level = |stride: usize| {
        let shape = (images, channels, size.height.div_ceil(stride), size.width.div_ceil(stride));
        vb.get_with_hints(shape, &format!("p{stride}"), init::normal(1.0))
    };
    STRIDES.map(level).into_iter().collect()
}

/// Prepares the refinement of boxes on given features.
pub fn refinement(place: &Place<'_>, climb: Climb, widths: Widths, size: Size) -> Result<Run> {
    let Climb { boxes: count, steps, precision } = climb;
    place.freeze();
    let (config, vb) = (config(widths)?, place.var_builder());
    let pyramid = pyramid(&vb, 1, widths.channels, size)?;
    let head = EnergyHead::new(&config, vb.clone())?.in_precision(precision);
    let (boxes, labels) = boxes(count, size, config.num_classes);
    let features = BoxFeatures::new(&pyramid, vec![0; count], labels, &boxes, config.convention)?;
    let (y0, ascent) = (features.targets()?, ascent(steps));
    Ok(Box::new(move || Ok(Box::new(refine(&head, &features, &y0, &ascent)?))))
}

/// Prepares Faster-RCNN's candidates in an image and, with `steps`, the refinement of boxes on the same features.
pub fn detector(place: &Place<'_>, climb: Climb, widths: Widths, size: Size) -> Result<Run> {
    let Climb { boxes: count, steps, precision } = climb;
    place.freeze();
    let (config, vb) = (config(widths)?, place.var_builder());
    let detector = FasterRcnn::new(&config, vb.clone())?;
    let head = EnergyHead::new(&config, vb.pp("roi_heads"))?.in_precision(precision);
    let pixels = images(place, Images { batch: 1, size })?;
    let batch = ImageBatch { pixels, sizes: vec![(size.height, size.width)] };
    let (boxes, labels) = boxes(count, size, config.num_classes);
    let ascent = ascent(steps);
    Ok(Box::new(move || {
        let pyramid = detector.features(&batch.pixels, false)?;
        let candidates = detector.candidates(&pyramid, &batch)?;
        if steps == 0 {
            return Ok(Box::new(candidates));
        }
        let features = BoxFeatures::new(&pyramid, vec![0; count], labels.clone(), &boxes, config.convention)?;
        let refined = refine(&head, &features, &features.targets()?, &ascent)?;
        Ok(Box::new((candidates, refined)))
    }))
}

/// Prepares direct age regression and, with `steps`, the refinement of its estimates (Algorithm S2).
pub fn age(place: &Place<'_>, batch: usize, side: usize, steps: usize) -> Result<Run> {
    place.freeze();
    let vb = place.var_builder();
    let trunk_config = ResNetBackboneConfig::resnet50();
    let width = trunk_config.num_features();
    let trunk = ResNetBackbone::new(&trunk_config, vb.pp("trunk"))?;
    let baseline = Baseline::Direct(Direct::new(1, DirectLoss::L2)?);
    let direct = BaselineHead::new(&baseline, width, width, vb.pp("direct"))?;
    let energy = ebm_face::EnergyHead::new(&EnergyHeadConfig::paper(1), width, vb.pp("energy"))?;
    let x = images(place, Images { batch, size: Size { height: side, width: side } })?;
    let estimate = move |features: &Tensor| Ok(baseline.predict(&direct.forward(features)?)?);
    Ok(age_run(move || Ok(trunk.features(&x, false)?), estimate, energy, steps))
}

/// Returns a run that computes the `estimate` from `features` and, if `steps` is above 0, a refinement with f.
fn age_run(
    features: impl Fn() -> Result<Tensor> + 'static,
    estimate: impl Fn(&Tensor) -> Result<Tensor> + 'static,
    energy: ebm_face::EnergyHead,
    steps: usize,
) -> Run {
    // These thresholds never end an ascent early.
    let rule =
        StepRule::EarlyStopping { change_threshold: 0.0, degeneration_tolerance: -1e30, keep_best: false };
    let ascent = GradientAscent { steps, step_length: vec![AGE_STEP], decay: 1.0, rule };
    Box::new(move || {
        let features = features()?;
        let estimate = estimate(&features)?;
        if steps == 0 {
            return Ok(Box::new(estimate));
        }
        let features = energy.features(&features)?;
        let y0 = (Tensor::ones((estimate.dim(0)?, 1, 1), features.dtype(), features.device())? * AGE)?;
        Ok(Box::new((estimate, refine(&energy, &features, &y0, &ascent)?)))
    })
}
