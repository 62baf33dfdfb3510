//! Training windows about objects, all of which then have sizes of one range (Singh and Davis, 2018, call
//! them chips).

use rand::RngCore;

use crate::draw::unit;
use crate::error::{Error, Result};
use crate::resize::Window;
use crate::transform::resize_boxes;

/// How a window about an object of an image is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectCrop {
    /// Rows and columns of the window, in pixels; fewer where the image ends.
    pub side: usize,
    /// What the object's size becomes, the root of its area in pixels, is log-uniform between these.
    pub sizes: [f64; 2],
    /// The image is neither enlarged nor reduced by more than this factor.
    pub largest_factor: f64,
}

/// A window of a resized image.
pub(crate) struct Crop {
    /// `(height, width)` of the resized image.
    pub size: (usize, usize),
    /// What is shown of it.
    pub window: Window,
}

impl ObjectCrop {
    /// Of an object at least this fraction has to be in the window; others are left out.
    pub const LEAST_SHOWN: f32 = 0.5;

    /// Checks that sizes are positive and in order.
    ///
    /// # Errors
    /// [`Error::Argument`] naming the setting.
    pub fn check(&self) -> Result<()> {
        let [low, high] = self.sizes;
        let holds = self.side > 0 && low > 0.0 && high >= low && high.is_finite();
        if holds && self.largest_factor >= 1.0 && self.largest_factor.is_finite() {
            return Ok(());
        }
        let detail = format!("sides and sizes must be positive and in order, factors at least 1: {self:?}");
        Err(Error::Argument { name: "crop", detail })
    }

    /// A window of an image of size `(height, width)` with the objects `boxes` (x0, y0, x1, y1): one of them,
    /// drawn with weights that are its size, is in it as far as there is space. Without objects the image
    /// keeps its size, and any window is as likely.
    pub(crate) fn draw(
        &self,
        (height, width): (usize, usize),
        boxes: &[[f32; 4]],
        rng: &mut dyn RngCore,
    ) -> Crop {
        let root_area =
            |[x0, y0, x1, y1]: &[f32; 4]| f64::from((x1 - x0).max(0.0) * (y1 - y0).max(0.0)).sqrt();
        let mut rest = unit(rng) * boxes.iter().map(root_area).sum::<f64>();
        let object = boxes.iter().find(|bbox| {
            rest -= root_area(bbox);
            rest < 0.0
        });
        let [low, high] = self.sizes;
        let aim = low * (high / low).powf(unit(rng));
        let factor = object.map_or(1.0, |object| aim / root_area(object));
        let factor = factor.clamp(1.0 / self.largest_factor, self.largest_factor);
        let resized = |side: usize| ((side as f64 * factor).round() as usize).max(1);
        let size = (resized(height), resized(width));
        let around = object.map(|object| resize_boxes(&[*object], (height, width), size)[0]);
        let mut along = |length: usize, ends: Option<[f32; 2]>| {
            let shown = self.side.min(length);
            let last = (length - shown) as f64;
            let [start, end] = ends.map_or([0.0, length as f64], |ends| ends.map(f64::from));
            // Of a small object every part is shown, and of a large one no more than it.
            let bound = [start, end - shown as f64].map(|bound| bound.clamp(0.0, last));
            let [first, last] = [bound[0].min(bound[1]), bound[0].max(bound[1])];
            let first = (first + unit(rng) * (last - first)).round() as usize;
            first..first + shown
        };
        let rows = along(size.0, around.map(|[_, y0, _, y1]| [y0, y1]));
        let columns = along(size.1, around.map(|[x0, _, x1, _]| [x0, x1]));
        Crop { size, window: Window { rows, columns } }
    }
}

impl Crop {
    /// The box of an image of size `(height, width)` in the window and clipped to it; none where too little of
    /// it is left ([`ObjectCrop::LEAST_SHOWN`]).
    pub fn shown(&self, from: (usize, usize), bbox: [f32; 4]) -> Option<[f32; 4]> {
        let [x0, y0, x1, y1] = resize_boxes(&[bbox], from, self.size)[0];
        let clip = |range: &std::ops::Range<usize>, corner: f32| {
            (corner - range.start as f32).clamp(0.0, range.len() as f32)
        };
        let Window { rows, columns } = &self.window;
        let shown = [clip(columns, x0), clip(rows, y0), clip(columns, x1), clip(rows, y1)];
        let area = |[x0, y0, x1, y1]: [f32; 4]| (x1 - x0) * (y1 - y0);
        let enough = area(shown) > 0.0 && area(shown) >= ObjectCrop::LEAST_SHOWN * area([x0, y0, x1, y1]);
        enough.then_some(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_base::Key;
    use proptest::prelude::*;

    const CROP: ObjectCrop = ObjectCrop { side: 64, sizes: [20.0, 40.0], largest_factor: 4.0 };

    #[test]
    fn the_object_has_its_size_and_is_in_the_window() {
        let mut sizes = Vec::new();
        for seed in 0..400 {
            let crop = CROP.draw((100, 200), &[[150.0, 10.0, 160.0, 20.0]], &mut Key::new(seed).rng());
            let [x0, y0, x1, y1] = crop.shown((100, 200), [150.0, 10.0, 160.0, 20.0]).unwrap();
            // Nothing is cut off, up to the rounding of the window's place.
            assert!((x1 - x0) / (y1 - y0) - 1.0 < 0.06 && x0 >= 0.0 && y1 <= 64.0);
            assert_eq!((crop.window.rows.len(), crop.window.columns.len()), (64, 64));
            sizes.push(f64::from((x1 - x0) * (y1 - y0)).sqrt());
        }
        assert!(sizes.iter().all(|size| (19.0..41.0).contains(size)));
        // The median of a log-uniform number is the geometric mean of its ends: 28.3; half of the draws are
        // below, with a standard deviation of 10.
        let below = sizes.iter().filter(|&&size| size < 800f64.sqrt()).count();
        assert!((160..240).contains(&below), "{below}");
    }

    #[test]
    fn large_objects_are_drawn_more_often() {
        let boxes = [[0.0, 0.0, 10.0, 10.0], [160.0, 60.0, 190.0, 90.0]];
        let crop = ObjectCrop { sizes: [40.0, 40.0], ..CROP };
        let large = (0..1000)
            .filter(|&seed| crop.draw((100, 200), &boxes, &mut Key::new(seed).rng()).size.0 < 200)
            .count();
        // 750 are expected, with a standard deviation of 14.
        assert!((690..810).contains(&large), "{large}");
    }

    #[test]
    fn what_is_mostly_outside_is_left_out() {
        let crop = Crop { size: (100, 100), window: Window { rows: 0..50, columns: 10..60 } };
        assert_eq!(crop.shown((100, 100), [20.0, 10.0, 30.0, 40.0]), Some([10.0, 10.0, 20.0, 40.0]));
        assert_eq!(crop.shown((100, 100), [40.0, 0.0, 80.0, 50.0]), Some([30.0, 0.0, 50.0, 50.0]));
        assert_eq!(crop.shown((100, 100), [41.0, 0.0, 81.0, 50.0]), None);
        assert_eq!(crop.shown((100, 100), [70.0, 0.0, 80.0, 50.0]), None);
        assert_eq!(crop.shown((50, 200), [20.0, 5.0, 40.0, 20.0]), Some([0.0, 10.0, 10.0, 40.0]));
    }

    proptest! {
        #[test]
        fn windows_lie_in_the_image(
            size in (1usize..300, 1usize..300), seed in 0u64..1000,
            corner in (0f32..250.0, 0f32..250.0), extent in (0.1f32..250.0, 0.1f32..250.0),
        ) {
            let bbox = [corner.0, corner.1, corner.0 + extent.0, corner.1 + extent.1];
            for boxes in [&[][..], &[bbox]] {
                let Crop { size: (height, width), window } = CROP.draw(size, boxes, &mut Key::new(seed).rng());
                prop_assert!(window.rows.end <= height && window.columns.end <= width);
                prop_assert_eq!((window.rows.len(), window.columns.len()), (height.min(64), width.min(64)));
            }
        }
    }
}
