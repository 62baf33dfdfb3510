//! Energy of boxes in an image: gradient ascent of boxes on f, and p(y | x) around one box.

use candle_core::{DType, Tensor};
use ebm_core::{EnergyModel, GaussianMixture, GradientAscent, Stand, Tempered, refine_observed};
use ebm_data::loader::Sample;
use ebm_ops::boxes::{BBox, BoxConvention};
use rand::RngCore;

use crate::corner_density::{BoxDensity, anchored};
use crate::energy_head::{BoxFeatures, EnergyHead};
use crate::inference::{AscentResult, BoxAscent, climb};
use crate::input::{clipped, to_input, to_original};
use crate::refiner::{Calibration, LabelledBox, RefinedBox};
use crate::{Error, Result};

/// Features of an image, which f of any box can be computed from.
pub struct ImageFeatures {
    /// Sizes of the image and of the network's input.
    pub(crate) sample: Sample,
    /// Feature pyramid in the layout that pooling reads.
    pub(crate) pyramid: Vec<Tensor>,
}

/// State of a box after a step of gradient ascent on f.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathPoint {
    /// `[x, y, width, height]` in pixels of the image.
    pub bbox: [f64; 4],
    /// f of the box.
    pub f: f64,
    /// Whether the step was kept; if it was undone, the box is the previous one.
    pub is_kept: bool,
}

/// Trained f of a [`BoxRefiner`](crate::BoxRefiner) or of a detector's branch, with the settings of gradient ascent.
pub struct BoxEnergy {
    pub(crate) head: EnergyHead,
    pub(crate) ascent: BoxAscent,
    /// Proposal of Eq. 5 that f was trained with; `None` if f has no density.
    pub(crate) proposal: Option<GaussianMixture>,
    pub(crate) convention: BoxConvention,
    /// Whether boxes are clipped to the image, before and after refinement.
    pub(crate) clips: bool,
    /// Whether the edges of densities are clipped to the image.
    pub(crate) clips_edges: bool,
    pub(crate) calibration: Option<Calibration>,
}

impl BoxEnergy {
    /// Returns the settings of gradient ascent, with the step lengths that training chose.
    pub fn ascent(&self) -> &GradientAscent {
        &self.ascent.ascent
    }

    /// Refines one box by gradient ascent on f, and returns its path: the first box, then the box after each step.
    ///
    /// # Errors
    /// When the box has no extent, its label is not the network's, or f is not finite.
    pub fn climb(
        &self,
        image: &ImageFeatures,
        given: LabelledBox,
        ascent: &GradientAscent,
    ) -> Result<Vec<PathPoint>> {
        let begin = self.inside(image, given.bbox);
        let features = self.features(image, &[given], &[to_input(&begin, &image.sample, self.convention)])?;
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
            let bbox = self.inside(image, to_original(&corners, &image.sample, self.convention));
            Ok(PathPoint { bbox, f, is_kept })
        };
        let mut path = stands.into_iter().map(point).collect::<Result<Vec<_>>>()?;
        path.iter_mut().take(1).for_each(|first| first.bbox = begin);
        Ok(path)
    }

    /// Estimates p(y | x) around one box, refined or not, from `samples` importance samples drawn with `rng`.
    ///
    /// # Errors
    /// As [`climb`](Self::climb); [`Error::Config`] if the objective does not draw its samples from Eq. 5.
    pub fn density(
        &self,
        image: &ImageFeatures,
        given: LabelledBox,
        samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        let given = LabelledBox { bbox: self.inside(image, given.bbox), ..given };
        let corners = to_input(&given.bbox, &image.sample, self.convention);
        self.density_at(image, given, corners, samples, self.temperature(), rng)
    }

    /// Returns the temperature of p(y | x); 1 without a calibration.
    pub(crate) fn temperature(&self) -> f64 {
        self.calibration.map_or(1.0, |calibration| calibration.temperature)
    }

    /// Estimates p(y | x) of this `temperature` around the box `given`, whose corners in the network's input are
    /// `corners`. A calibration, if there is one, is applied to the edges.
    pub(crate) fn density_at(
        &self,
        image: &ImageFeatures,
        given: LabelledBox,
        corners: BBox,
        samples: usize,
        temperature: f64,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        let features = self.features(image, &[given], &[corners])?;
        let head = Tempered::new(&self.head, temperature)?;
        let density = BoxDensity::about(&head, &features, self.proposal()?, samples, rng)?;
        let density = density.in_image(&image.sample, self.convention, self.clips_edges);
        Ok(match self.calibration {
            Some(calibration) => density.calibrated(calibration.edges_of(given.bbox)),
            None => density,
        })
    }

    /// Returns the difference in the coordinates of f of the box `other` and the box `given`, whose corners in the
    /// network's input are `corners`, and log p(y | x) of `other` under the `density` at `given`.
    pub(crate) fn log_prob_at(
        &self,
        image: &ImageFeatures,
        given: LabelledBox,
        corners: BBox,
        temperature: f64,
        density: &BoxDensity,
        other: [f64; 4],
    ) -> Result<([f64; 4], f64)> {
        let features = self.features(image, &[given], &[corners])?;
        let y = features.encode(&[to_input(&other, &image.sample, self.convention)])?;
        let head = Tempered::new(&self.head, temperature)?;
        let f = anchored(&head, &features, self.proposal()?)?
            .score(&features, &y)?
            .to_dtype(DType::F64)?
            .flatten_all()?
            .to_vec1::<f64>()?;
        let difference = (y - features.targets()?)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
        Ok(([0, 1, 2, 3].map(|d| difference[d]), density.log_prob(f[0])))
    }

    /// Returns the proposal of Eq. 5 that f was trained with.
    ///
    /// # Errors
    /// [`Error::Config`] if f was trained with samples from elsewhere.
    pub(crate) fn proposal(&self) -> Result<&GaussianMixture> {
        let reason = "p(y|x) is drawn from Eq. 5, and this energy model's objective has other samples";
        self.proposal.as_ref().ok_or_else(|| Error::config("density", reason))
    }

    /// Refines `boxes`, at least one, and returns them with their corners in the network's input.
    pub(crate) fn refined(
        &self,
        image: &ImageFeatures,
        boxes: &[LabelledBox],
        ascent: &BoxAscent,
    ) -> Result<(Vec<RefinedBox>, Vec<BBox>)> {
        // Boxes that are clipped after refinement are clipped before it too.
        let corners = boxes.iter().map(|given| self.inside(image, given.bbox));
        let corners: Vec<BBox> =
            corners.map(|bbox| to_input(&bbox, &image.sample, self.convention)).collect();
        let features = self.features(image, boxes, &corners)?;
        let AscentResult { boxes: climbed, f_before, f } = climb(&self.head, features, ascent)?;
        if let Some(f) = f_before.iter().chain(&f).find(|f| !f.is_finite()) {
            return Err(Error::input("refiner", format!("f of a box is {f}")));
        }
        let refined = boxes.iter().zip(&climbed).zip(f_before.into_iter().zip(f));
        let refined = refined.map(|((given, corners), (f_before, f))| {
            let bbox = to_original(corners, &image.sample, self.convention);
            let before = given.bbox;
            let bbox = match self.clips {
                true => clipped(bbox, &image.sample).unwrap_or_else(|| self.inside(image, before)),
                false => bbox,
            };
            RefinedBox { before, bbox, f_before, f, density: None }
        });
        Ok((refined.collect(), climbed))
    }

    /// Returns the features of `boxes`, whose corners in the network's input are `corners`.
    fn features(
        &self,
        image: &ImageFeatures,
        boxes: &[LabelledBox],
        corners: &[BBox],
    ) -> Result<BoxFeatures> {
        let is_agnostic = self.head.classes() == 1;
        let labels = boxes.iter().map(|given| if is_agnostic { 0 } else { given.label as u32 }).collect();
        BoxFeatures::new(&image.pyramid, vec![0; boxes.len()], labels, corners, self.convention)
    }

    /// Returns `bbox` clipped to the image if `clips` is set; a box outside the image stays as it is.
    fn inside(&self, image: &ImageFeatures, bbox: [f64; 4]) -> [f64; 4] {
        if self.clips { clipped(bbox, &image.sample).unwrap_or(bbox) } else { bbox }
    }
}
