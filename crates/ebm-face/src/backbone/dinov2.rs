//! DINOv2 (Oquab et al., 2023).

use candle_core::Tensor;
use candle_nn::{Init, Module, VarBuilder};
use candle_transformers::models::dinov2::DinoVisionTransformer;

use super::parameters::{Answer, filter};
use super::transformers::Dinov2Config;
use super::{Backbone, ImageSize};
use crate::{Error, Result};

/// DINOv2 with patches of 14 × 14: g_x is the class token behind the last normalisation. The published
/// parameter names. f32 only, one image after the other.
///
/// **Not trainable.** `candle_transformers` normalises its tokens with candle's layer normalisation of
/// contiguous tensors, which has no backward pass and cuts the graph in silence.
///
/// Its features differ from the published network's: `candle_transformers` has the tanh form of GELU and ε =
/// 1e-5 instead of 1e-6, and brings the position embeddings, which are those of images of 518 × 518, to the
/// patches of others by taking the nearest one, where the published code interpolates bicubically.
#[derive(Debug)]
pub struct Dinov2 {
    model: DinoVisionTransformer,
    num_features: usize,
}

/// Its position embeddings are those of a transposed image when the sides differ.
const IMAGES: ImageSize = ImageSize { multiple: 14, smallest: 14, square: true };

impl Dinov2 {
    /// The network whose parameters are those of `vb`, directly under it.
    ///
    /// # Errors
    /// [`Error::Config`] when a size is 0 or the heads do not divide the width; else when `vb` refuses a
    /// tensor.
    pub fn new(config: &Dinov2Config, vb: VarBuilder) -> Result<Self> {
        let Dinov2Config { depth, width, heads } = *config;
        if depth == 0 || width == 0 || heads == 0 || !width.is_multiple_of(heads) {
            let reason = format!("{config:?}: no size may be 0, and the heads divide the width");
            return Err(Error::Config { part: "DINOv2 backbone", reason });
        }
        let (dtype, device) = (vb.dtype(), vb.device().clone());
        let answer = move |name: &str| {
            Ok(match name {
                // The model's last layer sees the class token and the patches' mean: this passes the former.
                "head.weight" => {
                    let pass = Tensor::eye(width, dtype, &device)?;
                    Answer::Fixed(Tensor::cat(&[&pass, &pass.zeros_like()?], 1)?)
                }
                "head.bias" => Answer::Fixed(Tensor::zeros(width, dtype, &device)?),
                "cls_token" => Answer::Drawn(Init::Randn { mean: 0.0, stdev: 1e-6 }),
                "pos_embed" => Answer::Drawn(Init::Randn { mean: 0.0, stdev: 0.02 }),
                _ if name.ends_with(".gamma") => Answer::Drawn(Init::Const(1e-5)),
                _ => Answer::Parameter,
            })
        };
        let model = DinoVisionTransformer::new(filter(vb, answer), depth, width, heads)?;
        Ok(Self { model, num_features: width })
    }
}

impl Backbone for Dinov2 {
    fn features(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        if train {
            return Err(Error::NotTrainable {
                backbone: "DINOv2",
                reason: "candle's layer normalisation passes no gradient; ask for features without training and \
                         train the head on them, or take resnet or convnext",
            });
        }
        IMAGES.check(images)?;
        // The model takes one image at a time.
        let images = images.detach();
        let features = (0..images.dim(0)?)
            .map(|i| self.model.forward(&images.narrow(0, i, 1)?))
            .collect::<candle_core::Result<Vec<_>>>()?;
        Ok(Tensor::cat(&features, 0)?.detach())
    }

    fn num_features(&self) -> usize {
        self.num_features
    }

    fn images(&self) -> ImageSize {
        IMAGES
    }

    fn is_trainable(&self) -> bool {
        false
    }
}
