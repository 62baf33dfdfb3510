//! An image that stays at hand: what was found in it, and f of any other box.

use ebm_core::GradientAscent;
use ebm_data::Image;
use rand::RngCore;

use super::{
    Detection, Detector, Network,
    refined::{known, refine_boxes},
    two_stages::View,
};
use crate::{
    Error, Result,
    corner_density::BoxDensity,
    inference::PathPoint,
    refiner::{BoxRefiner, LabelledBox, Seen},
};

/// An image as a [`Detector`] saw it, with what it found there.
pub struct Scene {
    /// The objects, best score first, as [`Detector::detect`] gives them.
    pub detections: Vec<Detection>,
    sight: Sight,
}

/// What is kept of the image.
enum Sight {
    Refiner(Seen),
    TwoStages(Box<View>),
    /// Nothing that f could be asked of.
    Bare,
}

impl Detector {
    /// What [`detect`](Self::detect) finds, kept together with what [`climb`](Self::climb) and
    /// [`density`](Self::density) need of the image.
    ///
    /// # Errors
    /// As [`detect`](Self::detect).
    pub fn look(&self, image: &Image) -> Result<Scene> {
        if let Some(refiner) = &self.refiner {
            let (mut detections, seen) = (self.unrefined(image)?, refiner.look(image)?);
            refine_boxes(refiner, &mut detections, self.min_score, |boxes| {
                refiner.refine_seen(&seen, boxes)
            })?;
            return Ok(Scene { detections, sight: Sight::Refiner(seen) });
        }
        Ok(match &self.network {
            Network::TwoStages(detector) => {
                let view = detector.look(image)?;
                let detections = self.detections(detector.found(&view));
                Scene { detections, sight: Sight::TwoStages(Box::new(view)) }
            }
            Network::FastestDet(_) => Scene { detections: self.unrefined(image)?, sight: Sight::Bare },
        })
    }

    /// How its boxes climb f, by default; none where there is no f.
    pub fn ascent(&self) -> Option<&GradientAscent> {
        match (&self.refiner, &self.network) {
            (Some(refiner), _) => Some(refiner.ascent()),
            (None, Network::TwoStages(detector)) => detector.ascent(),
            (None, Network::FastestDet(_)) => None,
        }
    }

    /// Whether f can be asked about boxes of this label of the detector.
    pub fn can_climb(&self, label: usize) -> bool {
        match &self.refiner {
            Some(refiner) => self.for_refiner(refiner, LabelledBox { bbox: [0.0; 4], label }).is_ok(),
            None => self.ascent().is_some(),
        }
    }

    /// The way of a box with the detector's label up f, in steps as `ascent` says.
    ///
    /// # Errors
    /// [`Error::Config`] where there is no f of such boxes; when the box has no extent, or f is not finite.
    pub fn climb(
        &self,
        scene: &Scene,
        given: LabelledBox,
        ascent: &GradientAscent,
    ) -> Result<Vec<PathPoint>> {
        match (&scene.sight, &self.refiner, &self.network) {
            (Sight::Refiner(seen), Some(refiner), _) => {
                refiner.climb(seen, self.for_refiner(refiner, given)?, ascent)
            }
            (Sight::TwoStages(view), _, Network::TwoStages(detector)) => detector.climb(view, given, ascent),
            _ => Err(no_energy(NO_MODEL)),
        }
    }

    /// p(y | x) about a box with the detector's label from so many importance samples, drawn with `rng`.
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
        match (&scene.sight, &self.refiner, &self.network) {
            (Sight::Refiner(seen), Some(refiner), _) => {
                refiner.check_density()?;
                refiner.density(seen, self.for_refiner(refiner, given)?, samples, rng)
            }
            (Sight::TwoStages(view), _, Network::TwoStages(detector)) => {
                detector.density(view, given, samples, rng)
            }
            _ => Err(no_energy(NO_MODEL)),
        }
    }

    /// The box with the label that the refiner knows its class by.
    fn for_refiner(&self, refiner: &BoxRefiner, given: LabelledBox) -> Result<LabelledBox> {
        let class = self.classes().iter().find(|class| class.label == given.label);
        let label = known(refiner, class).ok_or_else(|| {
            let names: Vec<&str> = refiner.classes().iter().map(|class| class.name.as_str()).collect();
            no_energy(&format!("the refiner was trained on {} alone", names.join(", ")))
        })?;
        Ok(LabelledBox { label, ..given })
    }
}

const NO_MODEL: &str = "this detector has no energy model: give it a refiner or a branch";

fn no_energy(reason: &str) -> Error {
    Error::config("f of a box", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::DetectorOptions;
    use ebm_base::Key;
    use ebm_data::decode::read_upright;

    /// What is animated is what is predicted: the last point of a path is the refined box.
    #[test]
    fn a_path_ends_where_detection_does() {
        let image = read_upright(&ebm_testing::fixture("coco/val2017/000000343937.jpg")).unwrap();
        let detector = Detector::bundled(&DetectorOptions { min_score: 0.5, ..Default::default() }).unwrap();
        let scene = detector.look(&image).unwrap();
        let found = detector.detect(&image).unwrap();
        let boxes =
            |found: &[Detection]| -> Vec<_> { found.iter().map(|one| (one.before, one.bbox)).collect() };
        assert_eq!(boxes(&scene.detections), boxes(&found));
        let person = found.iter().find(|one| one.name() == "person").unwrap();
        let given = LabelledBox { bbox: person.before, label: person.label };
        let ascent = detector.ascent().unwrap();
        let path = detector.climb(&scene, given, ascent).unwrap();
        assert_eq!(path.len(), ascent.steps + 1);
        assert!(path.windows(2).all(|pair| pair[1].f >= pair[0].f));
        for (last, bbox) in path.last().unwrap().bbox.iter().zip(person.bbox) {
            assert!((last - bbox).abs() < 1e-3, "{path:?} {bbox:?}");
        }
        let given = LabelledBox { bbox: person.bbox, label: person.label };
        let density = detector.density(&scene, given, 256, &mut Key::new(0).rng()).unwrap();
        assert!(density.is_calibrated());
        let other = found.iter().find(|one| one.name() != "person").unwrap();
        let given = LabelledBox { bbox: other.bbox, label: other.label };
        let refused = detector.climb(&scene, given, ascent).unwrap_err().to_string();
        assert!(refused.contains("trained on person alone") && !detector.can_climb(other.label), "{refused}");
    }
}
