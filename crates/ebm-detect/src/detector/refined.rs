//! A detector's boxes, refined by a [`BoxRefiner`].

use ebm_data::Image;
use ebm_train::Class;
use rand::RngCore;

use super::{DensityOptions, Detection, DetectorOptions};
use crate::{
    Result,
    refiner::{BoxRefiner, LabelledBox, RefinedBox, RefinerOptions, Seen},
};

impl DetectorOptions {
    pub(super) fn of_refiner(&self) -> RefinerOptions {
        let (step_factor, device, precision) = (self.step_factor, self.device.clone(), self.precision);
        RefinerOptions { step_factor, device, precision, ..RefinerOptions::default() }
    }
}

/// The places of the detections of at least this score that `refiner` refines: boxes of the classes that it
/// was trained on.
fn refinable(refiner: &BoxRefiner, found: &[Detection], min_score: f32) -> Vec<usize> {
    let is_known = |class: &Class| {
        refiner.classes().iter().any(|known| known.id == class.id && known.name == class.name)
    };
    let is_refinable = |&i: &usize| {
        let Detection { class, score, bbox: [_, _, width, height], .. } = &found[i];
        class.as_ref().is_some_and(is_known) && *score >= min_score && *width > 0.0 && *height > 0.0
    };
    (0..found.len()).filter(is_refinable).collect()
}

/// Refines what can be refined and has at least this score.
pub(super) fn refine_boxes(
    refiner: &BoxRefiner,
    image: &Image,
    found: &mut [Detection],
    min_score: f32,
) -> Result<()> {
    let places = refinable(refiner, found, min_score);
    let refined = refiner.refine(image, &boxes(refiner, found, &places))?;
    put(found, &places, refined);
    Ok(())
}

/// The same in an image that `refiner` has looked at.
pub(super) fn refine_seen(
    refiner: &BoxRefiner,
    seen: &Seen,
    found: &mut [Detection],
    min_score: f32,
) -> Result<()> {
    let places = refinable(refiner, found, min_score);
    if !places.is_empty() {
        put(found, &places, refiner.refine_seen(seen, &boxes(refiner, found, &places))?);
    }
    Ok(())
}

/// The boxes of these detections, with the labels of `refiner`.
fn boxes(refiner: &BoxRefiner, found: &[Detection], places: &[usize]) -> Vec<LabelledBox> {
    let given = |&i: &usize| {
        let label = found[i].class.as_ref().and_then(|class| refiner.label(class.id));
        LabelledBox { bbox: found[i].bbox, label: label.unwrap_or_default() }
    };
    places.iter().map(given).collect()
}

/// Gives the detections at `places` their refined boxes.
fn put(found: &mut [Detection], places: &[usize], refined: Vec<RefinedBox>) {
    for (&place, refined) in places.iter().zip(refined) {
        found[place].bbox = refined.bbox;
        found[place].density = refined.density;
    }
}

/// The same of those that `options` ask for, with p(y | x) of each, drawn with `rng`.
pub(super) fn refine_with_density(
    refiner: &BoxRefiner,
    image: &Image,
    found: &mut [Detection],
    options: &DensityOptions,
    rng: &mut dyn RngCore,
) -> Result<()> {
    let places = refinable(refiner, found, options.min_score);
    let given = boxes(refiner, found, &places);
    put(found, &places, refiner.refine_with_density(image, &given, options.samples, rng)?);
    Ok(())
}
