//! Position and size of the target.

use ebm_data::patch::PatchGeometry;
use ebm_data::sequences::Rect;

use crate::{Error, Result};

/// Centre and size of the target in image pixels, rows first. Integer positions are the centres of pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    /// Centre (y, x).
    pub center: [f64; 2],
    /// Size (height, width).
    pub size: [f64; 2],
}

impl Target {
    /// Creates the target from a box (x, y, width, height) in an image of the size `image`, (height, width).
    pub fn new([x, y, width, height]: Rect, image: [usize; 2]) -> Result<Self> {
        let fail = |reason: &str| {
            let [rows, columns] = image;
            let bbox = [x, y, width, height];
            let image = format!("an image of {columns}x{rows} pixels");
            Err(Error::input(format!("the box {bbox:?} (x, y, width, height) in {image}"), reason))
        };
        if ![x, y, width, height].iter().all(|number| number.is_finite()) {
            return fail("its numbers must be finite");
        }
        if !(width > 0.0 && height > 0.0) {
            return fail("its sides must be positive");
        }
        if x + width <= 0.0 || y + height <= 0.0 || x >= image[1] as f64 || y >= image[0] as f64 {
            return fail("it must have a part inside the image");
        }
        Ok(Self { center: [y + (height - 1.0) / 2.0, x + (width - 1.0) / 2.0], size: [height, width] })
    }

    /// Returns the box (x, y, width, height).
    pub fn rect(&self) -> Rect {
        let ([y, x], [height, width]) = (self.center, self.size);
        [x - (width - 1.0) / 2.0, y - (height - 1.0) / 2.0, width, height]
    }

    /// Returns √(width · height).
    pub fn side(&self) -> f64 {
        (self.size[0] * self.size[1]).sqrt()
    }

    /// Returns the box (x, y, width, height) in a patch, with the box module's convention: the centre is x + width / 2.
    pub fn in_patch(&self, geometry: &PatchGeometry) -> Rect {
        let [y, x] = geometry.to_patch(self.center);
        let [height, width] = self.size.map(|side| side / geometry.scale());
        [x - width / 2.0, y - height / 2.0, width, height]
    }

    /// Creates the target from a box in a patch. This is the inverse of [`in_patch`](Self::in_patch).
    pub fn of_patch([x, y, width, height]: Rect, geometry: &PatchGeometry) -> Self {
        let center = geometry.to_image([y + height / 2.0, x + width / 2.0]);
        Self { center, size: [height, width].map(|side| side * geometry.scale()) }
    }

    /// Moves the centre until a fraction `share` of the box lies inside the image along each axis.
    pub fn keep_inside(&mut self, image: [usize; 2], share: f64) {
        for ((center, size), side) in self.center.iter_mut().zip(self.size).zip(image) {
            let margin = (share - 0.5) * size;
            let (low, high) = (margin, side as f64 - margin);
            // The bounds cross if the box is much larger than the image.
            *center = center.clamp(low.min(high), high.max(low));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_survives_the_way_to_a_patch_and_back() {
        let target = Target::new([10.0, 20.5, 31.0, 17.0], [100, 120]).unwrap();
        assert_eq!(target.rect(), [10.0, 20.5, 31.0, 17.0]);
        for sample in [60.0, 115.0, 700.0] {
            let geometry = PatchGeometry::new([33.0, 41.0], sample, 288).unwrap();
            let back = Target::of_patch(target.in_patch(&geometry), &geometry);
            for (a, b) in back.rect().iter().zip(target.rect()) {
                assert!((a - b).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn boxes_that_are_none_are_refused() {
        for bbox in [
            [0., 0., 0., 5.],
            [0., 0., 5., -1.],
            [f64::NAN, 0., 5., 5.],
            [120., 0., 5., 5.],
            [-9., 0., 5., 5.],
        ] {
            let error = Target::new(bbox, [100, 120]).unwrap_err().to_string();
            assert!(error.contains("120x100"), "{error}");
        }
        assert!(Target::new([-9., 0., 10., 5.], [100, 120]).is_ok());
    }

    #[test]
    fn a_fifth_of_the_box_stays_inside() {
        let mut target = Target { center: [-50.0, 130.0], size: [20.0, 40.0] };
        target.keep_inside([100, 120], 0.2);
        assert_eq!(target.center, [-6.0, 130.0]);
        target.center[1] = 140.0;
        target.keep_inside([100, 120], 0.2);
        assert_eq!(target.center, [-6.0, 132.0]);
    }
}
