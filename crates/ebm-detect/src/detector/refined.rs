//! A detector's boxes, refined by a [`BoxRefiner`].

use ebm_train::Class;

use super::{Detection, DetectorOptions};
use crate::{
    Result,
    refiner::{BoxRefiner, LabelledBox, RefinedBox, RefinerOptions},
};

impl DetectorOptions {
    pub(super) fn of_refiner(&self) -> RefinerOptions {
        let (step_factor, device, precision) = (self.step_factor, self.device.clone(), self.precision);
        RefinerOptions { step_factor, device, precision, ..RefinerOptions::default() }
    }
}

/// The label by which `refiner` knows boxes of this class; none where it was not trained on it.
pub(super) fn known(refiner: &BoxRefiner, class: Option<&Class>) -> Option<usize> {
    let class = class?;
    let mut trained = refiner.classes().iter();
    trained.find(|known| known.id == class.id && known.name == class.name)?;
    refiner.label(class.id)
}

/// Has the boxes of at least this score that `refiner` knows refined by `refine`, if there is one.
pub(super) fn refine_boxes(
    refiner: &BoxRefiner,
    found: &mut [Detection],
    min_score: f32,
    refine: impl FnOnce(&[LabelledBox]) -> Result<Vec<RefinedBox>>,
) -> Result<()> {
    let given = |(place, one): (usize, &Detection)| {
        let [_, _, width, height] = one.bbox;
        let label = known(refiner, one.class.as_ref())?;
        let is_refinable = one.score >= min_score && width > 0.0 && height > 0.0;
        is_refinable.then_some((place, LabelledBox { bbox: one.bbox, label }))
    };
    let (places, boxes): (Vec<usize>, Vec<LabelledBox>) = found.iter().enumerate().filter_map(given).unzip();
    if boxes.is_empty() {
        return Ok(());
    }
    for (place, refined) in places.into_iter().zip(refine(&boxes)?) {
        found[place].bbox = refined.bbox;
        found[place].density = refined.density;
    }
    Ok(())
}
