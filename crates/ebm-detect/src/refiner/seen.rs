//! One image, looked at once, and any number of boxes in it.

use candle_core::Tensor;
use ebm_core::GradientAscent;
use ebm_data::{Image, loader::Sample};
use rand::RngCore;

use super::{BoxRefiner, CONVENTION, LabelledBox, RefinedBox, clipped, to_input};
use crate::{
    Result,
    corner_density::BoxDensity,
    energy_head::{BoxFeatures, Coordinates},
    faster_rcnn::ImageBatch,
    inference::{BoxAscent, PathPoint, climb_path},
    input::{original_pixel, to_original},
};

/// An image as the network saw it.
pub struct Seen {
    /// From the input to the image.
    pub(super) sample: Sample,
    pub(super) pyramid: Vec<Tensor>,
}

impl BoxRefiner {
    /// Looks at an image, for [`climb`](Self::climb) and [`density`](Self::density).
    ///
    /// # Errors
    /// When the network fails.
    pub fn look(&self, image: &Image) -> Result<Seen> {
        let (images, sample) = ImageBatch::of_image(image, &self.config.input, &self.options.device)?;
        let pyramid = self.network.pyramid(&self.network.maps(&images.pixels)?)?;
        Ok(Seen { sample, pyramid: BoxFeatures::readable(&pyramid)? })
    }

    /// [`refine`](Self::refine) in an image that was looked at.
    ///
    /// # Errors
    /// As there.
    pub fn refine_seen(&self, seen: &Seen, boxes: &[LabelledBox]) -> Result<Vec<RefinedBox>> {
        Ok(self.refined(seen, boxes, &self.ascent)?.0)
    }

    /// How boxes climb, with the step lengths that training chose.
    pub fn ascent(&self) -> &GradientAscent {
        &self.ascent
    }

    /// The way of one box up f: where it begins, then where it stands after each step. Points are clipped as
    /// [`refine`](Self::refine) clips boxes, and the last one is what that returns for the same ascent where
    /// its rule keeps the last point.
    ///
    /// # Errors
    /// As [`refine`](Self::refine).
    pub fn climb(&self, seen: &Seen, given: LabelledBox, ascent: &GradientAscent) -> Result<Vec<PathPoint>> {
        let corners = [to_input(&self.inside(seen, given.bbox), original_pixel(&seen.sample))];
        let features = self.features(seen, &[given], &corners)?;
        let ascent = BoxAscent { ascent: ascent.clone(), coordinates: Coordinates::Relative };
        let mut path = climb_path(self.network.head(), features, &ascent, |corners| {
            self.inside(seen, to_original(corners, &seen.sample, CONVENTION))
        })?;
        if let Some(first) = path.first_mut() {
            first.bbox = self.inside(seen, given.bbox);
        }
        Ok(path)
    }

    /// p(y | x) about one box, which need not be refined, from so many importance samples, drawn with `rng`.
    ///
    /// # Errors
    /// As [`refine_with_density`](Self::refine_with_density).
    pub fn density(
        &self,
        seen: &Seen,
        given: LabelledBox,
        samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<BoxDensity> {
        let bbox = self.inside(seen, given.bbox);
        let corners = to_input(&bbox, original_pixel(&seen.sample));
        let density = self.tempered(seen, given, corners, samples, self.temperature(), rng)?;
        Ok(self.calibrated(density, bbox))
    }

    /// The box, clipped where boxes are and something is left of it.
    fn inside(&self, seen: &Seen, bbox: [f64; 4]) -> [f64; 4] {
        let (height, width) = seen.sample.original;
        let clip = self.options.clip.then_some([width as f64, height as f64]);
        clip.and_then(|size| clipped(bbox, size)).unwrap_or(bbox)
    }
}
