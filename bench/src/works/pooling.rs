//! Training of the confidence branch, and its pooling.

use anyhow::Result;
use candle_core::{Tensor, Var};
use ebm_base::Key;
use ebm_core::{GaussianMixture, MonteCarloNll, Objective};
use ebm_detect::{BoxFeatures, EnergyHead};
use ebm_nn::init;
use ebm_ops::boxes::BBox;

use super::prediction::{boxes, config, pyramid};
use super::{Place, Run};
use crate::work::{Size, Widths};

/// Standard deviations of Eq. 5, the paper's for detection.
const SIGMAS: [f64; 3] = [0.0375, 0.075, 0.15];

/// Prepares the loss of Eq. 4 and its gradients in the branch's parameters.
pub fn head_step(
    place: &Place<'_>,
    images: usize,
    objects: usize,
    samples: usize,
    widths: Widths,
    size: Size,
) -> Result<Run> {
    let (config, vb) = (config(widths)?, place.var_builder());
    let pyramid = pyramid(&vb, images, widths.channels, size)?;
    let head = EnergyHead::new(&config, vb.pp("roi_heads"))?;
    let (boxes, labels): (Vec<BBox>, Vec<u32>) = boxes(images * objects, size, config.num_classes);
    let of_image = (0..images as u32).flat_map(|image| std::iter::repeat_n(image, objects)).collect();
    let features = BoxFeatures::new(&pyramid, of_image, labels, &boxes, config.convention)?;
    let proposal = GaussianMixture::isotropic(&SIGMAS, 4)?;
    let objective = MonteCarloNll { proposal, num_samples: samples };
    let y = features.targets()?.squeeze(1)?;
    let mut rng = Key::new(0).split("samples").rng();
    Ok(Box::new(move || Ok(Box::new(ebm_ops::backward(&objective.loss(&head, &features, &y, &mut rng)?)?))))
}

/// Prepares the pooling of boxes to 7 × 7 bins from one map at stride 4, and the gradient of the output's sum in the
/// map or in the boxes.
pub fn roi_pool(
    place: &Place<'_>,
    count: usize,
    channels: usize,
    Size { height, width }: Size,
    of_boxes: bool,
) -> Result<Run> {
    const STRIDE: usize = 4;
    let map = place.var_builder().get_with_hints((1, height, width, channels), "map", init::normal(1.0))?;
    let map = map.permute((0, 3, 1, 2))?;
    let map = if of_boxes { map.detach() } else { map };
    let (boxes, _) = boxes(count, Size { height: STRIDE * height, width: STRIDE * width }, 2);
    // These sizes are typical of this level.
    let small = |b: &BBox| [0.0, b[0], b[1], b[0] + 28.0 + b[2] % 84.0, b[1] + 28.0 + b[3] % 84.0];
    let rois: Vec<f32> = boxes.iter().flat_map(small).collect();
    let rois = Tensor::from_vec(rois, (count, 5), place.device)?;
    let rois = if of_boxes { Var::from_tensor(&rois)?.into_inner() } else { rois };
    Ok(Box::new(move || {
        let pooled = ebm_ops::roi::prroi_pool(&map, &rois, (7, 7), 1.0 / STRIDE as f64)?;
        // The gradient is of the sum, which need not be computed.
        Ok(Box::new(ebm_ops::backward(&pooled)?))
    }))
}
