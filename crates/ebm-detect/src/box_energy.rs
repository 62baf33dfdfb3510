//! f of the boxes of an image that a network has seen: how they climb it, and p(y | x) about one.

use candle_core::Tensor;
use ebm_core::{GaussianMixture, GradientAscent, Stand, Tempered, refine_observed};
use ebm_data::loader::Sample;
use ebm_ops::boxes::{BBox, BoxConvention};
use rand::RngCore;

use crate::{
    Error, Result,
    corner_density::BoxDensity,
    energy_head::{BoxFeatures, EnergyHead},
    inference::{BoxAscent, Climbed, climb},
    input::{clipped, to_input, to_original},
    refiner::{Calibration, LabelledBox, RefinedBox},
};

/// An image as a network saw it.
pub struct Seen {
    /// From the input to the image.
    pub(crate) sample: Sample,
    /// The pyramid, as pooling reads it.
    pub(crate) pyramid: Vec<Tensor>,
}

/// Where a box stands on its way up f.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathPoint {
    /// `[x, y, width, height]` in pixels of the image.
    pub bbox: [f64; 4],
    /// f there.
    pub f: f64,
    /// Whether the step that was tried was kept; an undone one leaves the box where it was.
    pub is_kept: bool,
}

/// A trained f of boxes, a [`BoxRefiner`](crate::BoxRefiner)'s or that of a detector's branch, and how boxes climb it.
pub struct BoxEnergy {
    pub(crate) head: EnergyHead,
    pub(crate) ascent: BoxAscent,
    /// Eq. 5 as f was trained with, where p(y | x) is known by it.
    pub(crate) proposal: Option<GaussianMixture>,
    pub(crate) convention: BoxConvention,
    /// Whether boxes begin and end inside of the image.
    pub(crate) clips: bool,
    /// Whether the edges of densities end at the image's border.
    pub(crate) clips_edges: bool,
    pub(crate) calibration: Option<Calibration>,
}

impl BoxEnergy {
    /// How boxes climb, with the step lengths that training chose.
    pub fn ascent(&self) -> &GradientAscent {
        &self.ascent.ascent
    }

    /// The way of one box up f: where it begins, then where it stands after each step.
    ///
    /// # Errors
    /// When the box has no extent, its label is not the network's, or f is not finite.
    pub fn climb(&self, seen: &Seen, given: LabelledBox, ascent: &GradientAscent) -> Result<Vec<PathPoint>> {
        let begin = self.inside(seen, given.bbox);
        let features = self.features(seen, &[given], &[to_input(&begin, &seen.sample, self.convention)])?;
        let features = features.in_coordinates(self.ascent.coordinates)?;
        let (mut stands, y0) = (Vec::new(), features.targets()?);
        let mut observe = |stand: Stand<'_>| stands.push((stand.y.to_vec(), stand.f, stand.is_kept));
        refine_observed(&self.head, &features, &y0, ascent, &mut observe)?;
        let point = |(y, f, is_kept): (Vec<f64>, f64, bool)| {
            if !f.is_finite() {
                return Err(Error::input("refinement", format!("f of a box is {f}")));
            }
            let y = Tensor::from_vec(y, (1, 1, 4), y0.device())?.to_dtype(y0.dtype())?;
            let corners = features.corners(&y)?.flatten_all()?.to_vec1::<f32>()?;
            let corners = [corners[0], corners[1], corners[2], corners[3]];
            let bbox = self.inside(seen, to_original(&corners, &seen.sample, self.convention));
            Ok(PathPoint { bbox, f, is_kept })
        };
        let mut path = stands.into_iter().map(point).collect::<Result<Vec<_>>>()?;
        path.iter_mut().take(1).for_each(|first| first.bbox = begin);
        Ok(path)
    }

    /// p(y | x) about one box, which need not be refined, from so many importance samples, drawn with `rng`.
    ///
    /// # Errors
    /// As [`climb`](Self::climb); [`Error::Config`] where samples of the objective do not come from Eq. 5.
    pub fn density(
        &self,
        seen: &Seen,
        given: LabelledBox,
        samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        let given = LabelledBox { bbox: self.inside(seen, given.bbox), ..given };
        let corners = to_input(&given.bbox, &seen.sample, self.convention);
        self.density_at(seen, given, corners, samples, self.temperature(), rng)
    }

    /// What p(y | x) is tempered by.
    pub(crate) fn temperature(&self) -> f64 {
        self.calibration.map_or(1.0, |calibration| calibration.temperature)
    }

    /// p(y | x) of this temperature about a box of the image whose `corners` are those in the network's input, with what
    /// a calibration knows of its edges.
    pub(crate) fn density_at(
        &self,
        seen: &Seen,
        given: LabelledBox,
        corners: BBox,
        samples: usize,
        temperature: f64,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        let features = self.features(seen, &[given], &[corners])?;
        let head = Tempered::new(&self.head, temperature)?;
        let density = BoxDensity::about(&head, &features, self.proposal()?, samples, rng)?;
        let density = density.in_image(&seen.sample, self.convention, self.clips_edges);
        Ok(match self.calibration {
            Some(calibration) => density.calibrated(calibration.edges_of(given.bbox)),
            None => density,
        })
    }

    /// Eq. 5 as f was trained with.
    pub(crate) fn proposal(&self) -> Result<&GaussianMixture> {
        let reason = "p(y|x) is drawn from Eq. 5, and this energy model's objective has other samples";
        self.proposal.as_ref().ok_or_else(|| Error::config("density", reason))
    }

    /// The refined boxes, of which there is one at least, and their corners in the network's input.
    pub(crate) fn refined(
        &self,
        seen: &Seen,
        boxes: &[LabelledBox],
        ascent: &BoxAscent,
    ) -> Result<(Vec<RefinedBox>, Vec<BBox>)> {
        // What is clipped in the end begins so.
        let corners = boxes.iter().map(|given| self.inside(seen, given.bbox));
        let corners: Vec<BBox> = corners.map(|bbox| to_input(&bbox, &seen.sample, self.convention)).collect();
        let features = self.features(seen, boxes, &corners)?;
        let Climbed { boxes: climbed, f_before, f } = climb(&self.head, features, ascent)?;
        if let Some(f) = f_before.iter().chain(&f).find(|f| !f.is_finite()) {
            return Err(Error::input("refiner", format!("f of a box is {f}")));
        }
        let refined = boxes.iter().zip(&climbed).zip(f_before.into_iter().zip(f));
        let refined = refined.map(|((given, corners), (f_before, f))| {
            let bbox = to_original(corners, &seen.sample, self.convention);
            let before = given.bbox;
            let bbox = match self.clips {
                true => clipped(bbox, &seen.sample).unwrap_or_else(|| self.inside(seen, before)),
                false => bbox,
            };
            RefinedBox { before, bbox, f_before, f, density: None }
        });
        Ok((refined.collect(), climbed))
    }

    /// What f needs of boxes, whose `corners` are those in the network's input.
    fn features(&self, seen: &Seen, boxes: &[LabelledBox], corners: &[BBox]) -> Result<BoxFeatures> {
        let is_agnostic = self.head.classes() == 1;
        let labels = boxes.iter().map(|given| if is_agnostic { 0 } else { given.label as u32 }).collect();
        BoxFeatures::new(&seen.pyramid, vec![0; boxes.len()], labels, corners, self.convention)
    }

    /// The box, clipped where boxes are and something is left of it.
    fn inside(&self, seen: &Seen, bbox: [f64; 4]) -> [f64; 4] {
        if self.clips { clipped(bbox, &seen.sample).unwrap_or(bbox) } else { bbox }
    }
}
