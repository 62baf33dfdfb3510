//! The columns of Table 2.

use ebm_core::parametric::{Baseline, ConditionalVae, Gaussian, Laplace, MixtureOfGaussians};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// How the boxes of a detection are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Faster-RCNN's regression.
    Direct,
    /// A Gaussian over the offsets from the proposal.
    Gaussian,
    /// A mixture of two.
    Mixture2,
    /// A mixture of four.
    Mixture4,
    /// A mixture of eight.
    Mixture8,
    /// An infinite mixture: a conditional variational autoencoder.
    Cvae,
    /// A Laplace distribution.
    Laplace,
    /// A confidence trained towards the IoU of boxes spread evenly over it, climbed in pixels.
    IouNet,
    /// The same with the energy model's proposal and inference.
    IouNetStar,
    /// The energy-based model, trained with Eq. 4.
    Ebm,
}

/// A column of Table 2: COCO test-dev, per cent, and frames per second on a TITAN Xp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// AP, AP50, AP75.
    pub ap: [f64; 3],
    /// Frames per second.
    pub fps: f64,
}

impl Method {
    /// In the table's order.
    pub const ALL: [Method; 10] = [
        Method::Direct,
        Method::Gaussian,
        Method::Mixture2,
        Method::Mixture4,
        Method::Mixture8,
        Method::Cvae,
        Method::Laplace,
        Method::IouNet,
        Method::IouNetStar,
        Method::Ebm,
    ];

    /// Coordinates of a box.
    const DIM: usize = 4;

    /// The name in result files.
    pub fn key(self) -> &'static str {
        match self {
            Method::Direct => "direct",
            Method::Gaussian => "gaussian",
            Method::Mixture2 => "mixture2",
            Method::Mixture4 => "mixture4",
            Method::Mixture8 => "mixture8",
            Method::Cvae => "cvae",
            Method::Laplace => "laplace",
            Method::IouNet => "iou_net",
            Method::IouNetStar => "iou_net_star",
            Method::Ebm => "ebm",
        }
    }

    /// The method of that name.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.key() == key)
    }

    /// The name in the paper's Table 2.
    pub fn title(self) -> &'static str {
        match self {
            Method::Direct => "Direct (Faster-RCNN)",
            Method::Gaussian => "Gaussian",
            Method::Mixture2 => "Gaussian mixt. 2",
            Method::Mixture4 => "Gaussian mixt. 4",
            Method::Mixture8 => "Gaussian mixt. 8",
            Method::Cvae => "Gaussian cVAE",
            Method::Laplace => "Laplace",
            Method::IouNet => "IoU-Net",
            Method::IouNetStar => "IoU-Net*",
            Method::Ebm => "EBM (ours)",
        }
    }

    /// The family of densities over the box coder's offsets that replaces the regression, where one does.
    pub fn baseline(self) -> Result<Option<Baseline>> {
        let mixture = |components| MixtureOfGaussians::new(Self::DIM, components);
        Ok(Some(match self {
            Method::Gaussian => Baseline::Gaussian(Gaussian::new(Self::DIM)?),
            Method::Laplace => Baseline::Laplace(Laplace::new(Self::DIM)?),
            Method::Mixture2 => Baseline::MixtureOfGaussians(mixture(2)?),
            Method::Mixture4 => Baseline::MixtureOfGaussians(mixture(4)?),
            Method::Mixture8 => Baseline::MixtureOfGaussians(mixture(8)?),
            Method::Cvae => Baseline::ConditionalVae(ConditionalVae::new(
                Self::DIM,
                ConditionalVae::LATENT_DIM,
                ConditionalVae::NUM_SAMPLES,
            )?),
            Method::Direct | Method::IouNet | Method::IouNetStar | Method::Ebm => return Ok(None),
        }))
    }

    /// The method's column of Table 2.
    pub fn published(self) -> Published {
        let (ap, fps) = match self {
            Method::Direct => ([37.2, 59.2, 40.3], 12.2),
            Method::Gaussian => ([36.7, 58.7, 39.6], 12.2),
            Method::Mixture2 => ([37.1, 59.1, 40.0], 12.2),
            Method::Mixture4 => ([37.0, 59.1, 39.9], 12.1),
            Method::Mixture8 => ([36.8, 59.1, 39.7], 12.1),
            Method::Cvae => ([37.2, 59.2, 40.0], 9.6),
            Method::Laplace => ([37.1, 59.1, 40.2], 12.2),
            Method::IouNet => ([38.3, 58.3, 41.4], 5.3),
            Method::IouNetStar => ([38.2, 58.4, 41.4], 5.3),
            Method::Ebm => ([39.4, 58.6, 42.1], 5.3),
        };
        Published { ap, fps }
    }
}
