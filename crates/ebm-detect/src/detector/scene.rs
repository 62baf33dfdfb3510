//! An image that stays at hand: what was found in it, and f of any other box.

use ebm_core::GradientAscent;
use ebm_data::Image;
use rand::RngCore;

use super::{Detection, Detector, Network, two_stages::Unrefined};
use crate::{
    Error, Result,
    box_energy::{BoxEnergy, PathPoint, Seen},
    corner_density::BoxDensity,
    refiner::LabelledBox,
};

/// An image as a [`Detector`] saw it, with what it found there.
pub struct Scene {
    /// The objects, best score first, as [`Detector::detect`] gives them.
    pub detections: Vec<Detection>,
    /// What f can be asked of, where there is f.
    seen: Option<Seen>,
}

impl Detector {
    /// What [`detect`](Self::detect) finds, kept together with what [`climb`](Self::climb) and
    /// [`density`](Self::density) need of the image.
    ///
    /// # Errors
    /// As [`detect`](Self::detect).
    pub fn look(&self, image: &Image) -> Result<Scene> {
        let Unrefined { mut detections, mut seen, .. } = self.unrefined(image)?;
        if let Some(refiner) = &self.refiner {
            let (energy, own) = (refiner.energy(), refiner.look(image)?);
            refiner.refine_found(&mut detections, self.min_score, |boxes| {
                Ok(energy.refined(&own, boxes, &energy.ascent)?.0)
            })?;
            seen = Some(own);
        }
        Ok(Scene { detections, seen })
    }

    /// f of boxes: the refiner's, or else the branch's.
    pub(super) fn energy(&self) -> Option<&BoxEnergy> {
        match (&self.refiner, &self.network) {
            (Some(refiner), _) => Some(refiner.energy()),
            (None, Network::TwoStages(detector)) => detector.energy(),
            (None, Network::FastestDet(_)) => None,
        }
    }

    /// How its boxes climb f, by default; none where there is no f.
    pub fn ascent(&self) -> Option<&GradientAscent> {
        self.energy().map(BoxEnergy::ascent)
    }

    /// Whether f can be asked about boxes of this label of the detector.
    pub fn can_climb(&self, label: usize) -> bool {
        self.energy().is_some() && self.labelled(LabelledBox { bbox: [0.0; 4], label }).is_ok()
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
        let (energy, seen) = self.seen_by_energy(scene)?;
        energy.climb(seen, self.labelled(given)?, ascent)
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
        self.check_density()?;
        let (energy, seen) = self.seen_by_energy(scene)?;
        energy.density(seen, self.labelled(given)?, samples, rng)
    }

    /// f, and the scene as its network saw it.
    fn seen_by_energy<'a>(&'a self, scene: &'a Scene) -> Result<(&'a BoxEnergy, &'a Seen)> {
        let reason = "this detector has no energy model: give it a refiner or a branch";
        self.energy().zip(scene.seen.as_ref()).ok_or_else(|| no_energy(reason))
    }

    /// The box with the label that f knows its class by, which is another in a refiner.
    fn labelled(&self, given: LabelledBox) -> Result<LabelledBox> {
        let Some(refiner) = &self.refiner else { return Ok(given) };
        let class = self.classes().iter().find(|class| class.label == given.label);
        let label = class.and_then(|class| refiner.label_of(class)).ok_or_else(|| {
            let names: Vec<&str> = refiner.classes().iter().map(|class| class.name.as_str()).collect();
            no_energy(&format!("the refiner was trained on {} alone", names.join(", ")))
        })?;
        Ok(LabelledBox { label, ..given })
    }
}

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
