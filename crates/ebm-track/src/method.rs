//! The methods that Table 3 compares here.

use ebm_core::{GaussianMixture, GradientAscent, Proposal, StepRule};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::training::PerturbedBoxes;

/// How the box module is trained, and with what it refines boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// ATOM: regression of the IoU of perturbed boxes.
    Atom,
    /// ATOM*: the same with the energy model's proposal and inference.
    AtomStar,
    /// The energy-based model, trained with Eq. 4.
    Ebm,
}

/// A method's row of Table 3, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Precision, normalised precision and success on TrackingNet's test set.
    pub tracking_net: [f64; 3],
    /// OP50, OP75 and AUC on UAV123.
    pub uav123: [f64; 3],
}

impl Method {
    /// In the table's order.
    pub const ALL: [Method; 3] = [Method::Atom, Method::AtomStar, Method::Ebm];

    /// The name in result files.
    pub fn key(self) -> &'static str {
        match self {
            Method::Atom => "atom",
            Method::AtomStar => "atom_star",
            Method::Ebm => "ebm",
        }
    }

    /// The name in the paper's Table 3.
    pub fn title(self) -> &'static str {
        match self {
            Method::Atom => "ATOM",
            Method::AtomStar => "ATOM*",
            Method::Ebm => "EBM (ours)",
        }
    }

    /// Table 3.
    pub fn published(self) -> Published {
        let (tracking_net, uav123) = match self {
            Method::Atom => ([64.8, 77.1, 70.3], [78.9, 55.7, 65.0]),
            Method::AtomStar => ([66.6, 78.4, 72.0], [79.0, 56.5, 64.9]),
            Method::Ebm => ([69.7, 80.1, 74.5], [80.8, 60.2, 67.2]),
        };
        Published { tracking_net, uav123 }
    }

    /// The paper's settings (supplement, Visual Tracking).
    pub fn paper(self) -> MethodSettings {
        let gaussian = || BoxProposal::Gaussian { sigmas: vec![0.05, 0.5] };
        let relative =
            |step_length| Refinement { coordinates: StepCoordinates::Relative, steps: 10, step_length };
        match self {
            Method::Atom => MethodSettings {
                proposal: BoxProposal::Perturbed,
                samples: 16,
                refinement: Refinement {
                    coordinates: StepCoordinates::Pixels,
                    steps: 5,
                    step_length: [1.0, 1.0],
                },
            },
            Method::AtomStar => {
                MethodSettings { proposal: gaussian(), samples: 128, refinement: relative([1e-2, 5e-2]) }
            }
            Method::Ebm => {
                MethodSettings { proposal: gaussian(), samples: 128, refinement: relative([2e-4, 1e-3]) }
            }
        }
    }
}

/// What a method's training samples, and how it refines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodSettings {
    /// Where boxes come from in training.
    pub proposal: BoxProposal,
    /// Their number for each pair; the true box comes on top where the loss needs it.
    pub samples: usize,
    /// How boxes are refined in prediction.
    pub refinement: Refinement,
}

/// A distribution of boxes around the true one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum BoxProposal {
    /// [`PerturbedBoxes`].
    Perturbed,
    /// Eq. 5.
    Gaussian {
        /// σ_l, the same for all four coordinates.
        sigmas: Vec<f64>,
    },
}

impl BoxProposal {
    /// The distribution itself, over y of a [`BoxSpace`](ebm_core::BoxSpace) with the true box's size.
    ///
    /// # Errors
    /// When a σ is not positive or there is none.
    pub fn build(&self) -> Result<Box<dyn Proposal>> {
        Ok(match self {
            Self::Perturbed => Box::new(PerturbedBoxes),
            Self::Gaussian { sigmas } => Box::new(GaussianMixture::isotropic(sigmas, 4)?),
        })
    }
}

/// The coordinates in which boxes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCoordinates {
    /// [`PixelSteps`](crate::box_module::PixelSteps): ATOM.
    Pixels,
    /// `(c_x/w₀, c_y/h₀, log w, log h)`, w₀ and h₀ being the size of the first of the initial boxes: the paper.
    Relative,
}

/// Gradient ascent on f with steps that are always taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refinement {
    /// In which coordinates.
    pub coordinates: StepCoordinates,
    /// T.
    pub steps: usize,
    /// λ for position and for size.
    pub step_length: [f64; 2],
}

impl Refinement {
    /// The same with step lengths `factor` times as long.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self { step_length: self.step_length.map(|length| length * factor), ..self.clone() }
    }

    /// The same for [`refine`](ebm_core::refine).
    pub fn ascent(&self) -> GradientAscent {
        let [position, size] = self.step_length;
        let step_length = vec![position, position, size, size];
        GradientAscent { steps: self.steps, step_length, decay: 1.0, rule: StepRule::Plain }
    }
}
