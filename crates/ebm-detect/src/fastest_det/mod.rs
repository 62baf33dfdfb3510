//! FastestDet: a one-stage detector (BSD-3-Clause, 2022, xuehao.ma). It has a ShuffleNetV2 body and one map of
//! stride 16, and each cell of the map holds at most one object.

mod network;

use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use ebm_data::Image;
use ebm_data::resize::resize_pillow_box;
use ebm_data::transform::{ChannelOrder, Normalise};
use ebm_ops::boxes::{BoxConvention, batched_nms};

use crate::{Result, box_head::Candidate, config::FastestDetConfig};

use self::network::Network;

/// Exponents of the probabilities of an object and of its class in the score.
const WEIGHTS: [f32; 2] = [0.6, 0.4];

/// FastestDet with its inference settings; parameter names are those in the published `.pth`.
pub struct FastestDet {
    network: Network,
    config: FastestDetConfig,
    device: Device,
}

impl FastestDet {
    /// Normalisation of the input: blue first, 0 to 1.
    const NORMALISE: Normalise =
        Normalise { order: ChannelOrder::Bgr, scale: 1. / 255., mean: [0.; 3], std: [1.; 3] };

    /// Builds the detector of `classes` classes from the parameters of `vb`.
    ///
    /// # Errors
    /// When `vb` refuses a tensor.
    pub fn new(config: FastestDetConfig, classes: usize, vb: &VarBuilder) -> Result<Self> {
        Ok(Self { network: Network::new(classes, vb)?, config, device: vb.device().clone() })
    }

    /// Applies the network to `pixels (N, 3, H, W)`, with H and W multiples of 32. The output
    /// (N, H/16, W/16, 5 + classes) holds the probability of an object, four numbers of its box, and the
    /// probabilities of the classes.
    ///
    /// # Errors
    /// When `pixels` has another shape.
    pub fn forward(&self, pixels: &Tensor) -> Result<Tensor> {
        self.network.forward(pixels)
    }

    /// Detects the objects in `image`, and returns them by descending score. Boxes are in pixels of the image and
    /// may extend beyond it.
    ///
    /// # Errors
    /// When the network's outputs are not finite.
    pub fn detect(&self, image: &Image) -> Result<Vec<Candidate>> {
        let side = self.config.side;
        // The published figures use this resizing: each pixel is the mean of those that it covers.
        let planes = Self::NORMALISE.to_chw(&resize_pillow_box(image, side, side));
        let output = self.forward(&Tensor::from_vec(planes, (1, 3, side, side), &self.device)?)?;
        let found = decode(&output, image, self.config.score_threshold)?;
        let boxes: Vec<_> = found.iter().map(|candidate| candidate.bbox).collect();
        let scores: Vec<_> = found.iter().map(|candidate| candidate.score).collect();
        let labels: Vec<_> = found.iter().map(|candidate| candidate.label).collect();
        let kept = batched_nms(&boxes, &scores, &labels, self.config.nms, BoxConvention::HalfOpen)?;
        Ok(kept.into_iter().map(|i| found[i]).collect())
    }
}

/// Decodes the network's `output (1, rows, columns, 5 + classes)` to the objects of `image` with a score of at least
/// `threshold`. Objects with a NaN score are kept, so that suppression refuses them.
fn decode(output: &Tensor, image: &Image, threshold: f32) -> Result<Vec<Candidate>> {
    let (_, rows, columns, each) = output.dims4()?;
    let sides = [image.width as f32, image.height as f32];
    let candidate = |(cell, numbers): (usize, &[f32])| {
        let [object, x, y, w, h, ref classes @ ..] = *numbers else { return None };
        let (label, class) = classes
            .iter()
            .enumerate()
            .fold((0, f32::MIN), |best, (label, &p)| if p > best.1 { (label + 1, p) } else { best });
        let score = object.powf(WEIGHTS[0]) * class.powf(WEIGHTS[1]);
        let centre = [
            ((cell % columns) as f32 + x.tanh()) / columns as f32 * sides[0],
            ((cell / columns) as f32 + y.tanh()) / rows as f32 * sides[1],
        ];
        let half = [logistic(w) * sides[0] / 2., logistic(h) * sides[1] / 2.];
        let bbox = [centre[0] - half[0], centre[1] - half[1], centre[0] + half[0], centre[1] + half[1]];
        (score >= threshold || score.is_nan()).then_some(Candidate { bbox, label, score })
    };
    let numbers = output.get(0)?.flatten_all()?.to_vec1::<f32>()?;
    Ok(numbers.chunks_exact(each.max(1)).enumerate().filter_map(candidate).collect())
}

fn logistic(x: f32) -> f32 {
    1. / (1. + (-x).exp())
}
