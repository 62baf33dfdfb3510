//! PrRoIPool from several maps of one image, on slices, with the channels always innermost.

use super::OP;
use crate::error::{Error, Result};
use crate::float::Float;
use crate::layout::ChannelsLast;
use crate::roi::{Axes, Loops, Roi, RoiPool, check_settings, parse};

/// Maps of a batch at several scales, usually finest first, that boxes are pooled from without a graph.
///
/// Pooled tiles are (ph, pw, C), the order in which the kernels make them, so nothing is transposed.
#[derive(Debug)]
pub struct Pyramid<'a, T: Float> {
    maps: Vec<ChannelsLast<'a, T>>,
    /// Pixels of each map per pixel of the image.
    scales: Vec<f64>,
    images: usize,
    channels: usize,
    out: (usize, usize),
}

impl<'a, T: Float> Pyramid<'a, T> {
    /// Takes each level's map (N, C, H, W) and its pixels per image pixel. Boxes are pooled to `out` = (ph, pw) bins.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is no map, two differ in N or C, C or a number of bins is zero, or a scale is not
    /// positive and finite.
    pub fn new(levels: Vec<(ChannelsLast<'a, T>, f64)>, out: (usize, usize)) -> Result<Self> {
        let shape = |map: &ChannelsLast<'_, T>| (map.shape().0, map.shape().1);
        let (images, channels) = levels.first().map_or((0, 0), |(map, _)| shape(map));
        if channels == 0 || levels.iter().any(|(map, _)| shape(map) != (images, channels)) {
            let reason =
                "the levels must be maps of the same images and the same number of channels, at least one";
            return Err(Error::Argument { op: OP, reason: reason.to_owned() });
        }
        levels.iter().try_for_each(|(_, scale)| check_settings(OP, out, *scale))?;
        let (maps, scales) = levels.into_iter().unzip();
        Ok(Self { maps, scales, images, channels, out })
    }

    /// Returns the number of elements of a pooled box, ph·pw·C.
    pub fn tile_len(&self) -> usize {
        self.out.0 * self.out.1 * self.channels
    }

    /// Pools R boxes, rows (image index, x0, y0, x1, y1) of `rois` in pixels of the image, to `to` (R, ph, pw, C). Box r is
    /// pooled from level `level_of[r]`.
    ///
    /// # Errors
    /// [`Error::Argument`] if lengths do not fit, a level does not exist, or a row is not finite or names an image that is
    /// not in the batch.
    pub fn pool(&self, rois: &[T], level_of: &[usize], to: &mut [T]) -> Result<()> {
        let boxes = self.boxes(rois, level_of, to.len())?;
        Loops::pool(&self.by_box(), &self.maps, &boxes, to);
        Ok(())
    }

    /// Returns the gradient in the boxes' coordinates, (R, 4), from `grad` (R, ph, pw, C).
    ///
    /// # Errors
    /// The errors of [`pool`](Self::pool).
    pub fn backward_rois(&self, rois: &[T], level_of: &[usize], grad: &[T]) -> Result<Vec<[T; 4]>> {
        let boxes = self.boxes(rois, level_of, grad.len())?;
        let slopes = Loops::slopes(&self.by_box(), &self.maps, &boxes, grad);
        let in_image =
            |(slopes, roi): ([f64; 4], &Roi)| slopes.map(|slope| T::from_f64(slope * self.scales[roi.level]));
        Ok(slopes.into_iter().zip(&boxes).map(in_image).collect())
    }

    fn by_box(&self) -> RoiPool {
        RoiPool { axes: Axes::Precise, out: self.out, spatial_scale: 1.0 }
    }

    /// Returns the boxes in pixels of their levels.
    fn boxes(&self, rois: &[T], level_of: &[usize], len: usize) -> Result<Vec<Roi>> {
        let refuse = |reason: String| Err(Error::Argument { op: OP, reason });
        let mut boxes = parse(OP, rois, self.images, 1.0)?;
        if boxes.len() != level_of.len() || len != boxes.len() * self.tile_len() {
            let (boxes, levels) = (boxes.len(), level_of.len());
            return refuse(format!(
                "{boxes} boxes, {levels} levels of boxes and {len} pooled numbers do not fit"
            ));
        }
        for (roi, &level) in boxes.iter_mut().zip(level_of) {
            let Some(scale) = self.scales.get(level) else {
                return refuse(format!("there is no level {level}; there are {}", self.scales.len()));
            };
            let scaled = |v: f64| v * scale;
            *roi = Roi { level, image: roi.image, x: roi.x.map(scaled), y: roi.y.map(scaled) };
        }
        Ok(boxes)
    }
}
