//! Detections in an image together with its features, for refinement and densities of any box.

use ebm_core::GradientAscent;
use ebm_data::Image;
use rand::RngCore;

use super::{Detection, Detector, Network, two_stages::Unrefined};
use crate::box_energy::{BoxEnergy, ImageFeatures, PathPoint};
use crate::corner_density::BoxDensity;
use crate::refiner::LabelledBox;
use crate::{Error, Result};

/// Detections of a [`Detector`] in an image, with the image's features.
pub struct Scene {
    /// Detections, as [`Detector::detect`] returns them.
    pub detections: Vec<Detection>,
    /// Features of the image for f; `None` if the detector has no f.
    features: Option<ImageFeatures>,
}

impl Detector {
    /// Detects the objects in `image` as [`detect`](Self::detect), and keeps the features that
    /// [`climb`](Self::climb) and [`density`](Self::density) need.
    ///
    /// # Errors
    /// As [`detect`](Self::detect).
    pub fn look(&self, image: &Image) -> Result<Scene> {
        let Unrefined { mut detections, mut features, .. } = self.unrefined(image)?;
        if let Some(refiner) = &self.refiner {
            let (energy, own) = (refiner.energy(), refiner.features(image)?);
            refiner.refine_found(&mut detections, self.min_score, |boxes| {
                Ok(energy.refined(&own, boxes, &energy.ascent)?.0)
            })?;
            features = Some(own);
        }
        Ok(Scene { detections, features })
    }

    /// Returns f of boxes: the refiner's, or else the branch's.
    pub(super) fn energy(&self) -> Option<&BoxEnergy> {
        match (&self.refiner, &self.network) {
            (Some(refiner), _) => Some(refiner.energy()),
            (None, Network::TwoStages(detector)) => detector.energy(),
            (None, Network::FastestDet(_)) => None,
        }
    }

    /// Returns the default settings of gradient ascent on f; `None` if the detector has no f.
    pub fn ascent(&self) -> Option<&GradientAscent> {
        self.energy().map(BoxEnergy::ascent)
    }

    /// Returns `true` if the detector has f for boxes of its class `label`.
    pub fn can_climb(&self, label: usize) -> bool {
        self.energy().is_some() && self.labelled(LabelledBox { bbox: [0.0; 4], label }).is_ok()
    }

    /// Refines the box `given`, with a label of the detector, by gradient ascent on f, and returns its path.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no f for boxes of this label; when the box has no extent, or f is not finite.
    pub fn climb(
        &self,
        scene: &Scene,
        given: LabelledBox,
        ascent: &GradientAscent,
    ) -> Result<Vec<PathPoint>> {
        let (energy, features) = self.energy_and_features(scene)?;
        energy.climb(features, self.labelled(given)?, ascent)
    }

    /// Estimates p(y | x) around the box `given`, with a label of the detector, from `samples` importance samples
    /// drawn with `rng`.
    ///
    /// # Errors
    /// As [`climb`](Self::climb), and [`check_density`](Self::check_density).
    pub fn density(
        &self,
        scene: &Scene,
        given: LabelledBox,
        samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        self.check_density()?;
        let (energy, features) = self.energy_and_features(scene)?;
        energy.density(features, self.labelled(given)?, samples, rng)
    }

    /// Returns f, and the features of the scene for it.
    fn energy_and_features<'a>(&'a self, scene: &'a Scene) -> Result<(&'a BoxEnergy, &'a ImageFeatures)> {
        let reason = "this detector has no energy model: give it a refiner or a branch";
        self.energy().zip(scene.features.as_ref()).ok_or_else(|| no_energy(reason))
    }

    /// Converts the detector's label of `given` to the label for f; a refiner has its own labels.
    fn labelled(&self, given: LabelledBox) -> Result<LabelledBox> {
        let Some(refiner) = &self.refiner else { return Ok(given) };
        let class = self.classes().iter().find(|class| class.label == given.label);
        let label =
            class.and_then(|class| refiner.label_of(class.id, Some(&class.name))).ok_or_else(|| {
                let names: Vec<&str> = refiner.classes().iter().map(|class| class.name.as_str()).collect();
                no_energy(&format!("the refiner was trained on {} alone", names.join(", ")))
            })?;
        Ok(LabelledBox { label, ..given })
    }
}

fn no_energy(reason: &str) -> Error {
    Error::config("f of a box", reason)
}
