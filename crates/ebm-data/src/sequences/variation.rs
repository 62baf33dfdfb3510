//! Augmentation that makes two crops of one still image as different as two frames of a video.

use ebm_base::Key;

use crate::draw::unit;
use crate::error::Result;
use crate::loader::{Planes, check_range};
use crate::patch::{PatchTransform, PatchView};

/// Smallest standard deviation of a blur in pixels; it is hardly visible.
const LEAST_BLUR: f64 = 0.2;
/// Largest standard deviation of a blur in pixels, so that a crop stays recognisable.
const MAX_BLUR: f64 = 32.;
/// Range of the margins around the box of a pasted object, in units of √(w h) of the box. Each side has a margin
/// of its own, so that the edges of the pasted region do not show the position of the box.
const MARGIN: [f64; 2] = [0.1, 0.7];

/// Augmentation of each crop of a pair, in addition to ATOM's augmentation of video frames. It is drawn for each
/// crop independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// Jitter of the reference crop's scale, like
    /// [`PairRecipe::scale_jitter`](super::pairs::PairRecipe::scale_jitter).
    pub scale_jitter: f64,
    /// Jitter of the reference crop's centre, like
    /// [`PairRecipe::centre_jitter`](super::pairs::PairRecipe::centre_jitter).
    pub centre_jitter: f64,
    /// Probability of mirroring left to right.
    pub mirror_probability: f64,
    /// Range t of the tint: each channel is multiplied by U(1 − t, 1 + t).
    pub tint: f64,
    /// Probability of a blur, as of motion along rows or columns or of a lens out of focus.
    pub blur_probability: f64,
    /// Scale of the blur's standard deviations down the columns and along the rows, in pixels of the crop. Each
    /// is this times U(0, 1)², and at least hardly visible.
    pub blur: f64,
    /// Probability that the object, with some of its surroundings, is pasted onto the surroundings of another target.
    pub paste_probability: f64,
}

impl Variation {
    /// Settings for still images.
    pub const STILLS: Self = Self {
        scale_jitter: 0.1,
        centre_jitter: 0.3,
        mirror_probability: 0.5,
        tint: 0.15,
        blur_probability: 0.3,
        blur: 4.,
        paste_probability: 0.25,
    };

    pub(super) fn check(&self) -> Result<()> {
        let settings = [
            ("mirror_probability", self.mirror_probability, 1.),
            ("tint", self.tint, 1.),
            ("blur_probability", self.blur_probability, 1.),
            ("paste_probability", self.paste_probability, 1.),
            ("reference scale_jitter", self.scale_jitter, f64::MAX),
            ("reference centre_jitter", self.centre_jitter, f64::MAX),
            ("blur", self.blur, MAX_BLUR),
        ];
        settings.into_iter().try_for_each(|(name, number, most)| check_range(name, number, most))
    }

    /// Draws the change of one crop, a pure function of the key.
    pub(super) fn draw(&self, key: Key) -> Change {
        let rng = &mut key.rng();
        let mut happens = |probability| unit(rng) < probability;
        let (mirrored, blurred) = (happens(self.mirror_probability), happens(self.blur_probability));
        let pasted = happens(self.paste_probability);
        let mut between = |low: f64, high: f64| low + (high - low) * unit(rng);
        let tint = [(); 3].map(|()| between(1. - self.tint, 1. + self.tint));
        let blur = [(); 2].map(|()| (self.blur * between(0., 1.).powi(2)).max(LEAST_BLUR));
        let margins = [(); 4].map(|()| between(MARGIN[0], MARGIN[1]));
        let (blur, margins) = (blurred.then_some(blur), pasted.then_some(margins));
        Change { mirrored, tint, blur, margins }
    }
}

/// Change of one crop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// `true` to mirror the crop left to right.
    pub mirrored: bool,
    /// Factors of the channels.
    pub tint: [f64; 3],
    /// Standard deviations of a blur down the columns and along the rows.
    blur: Option<[f64; 2]>,
    /// Margins on the left, above, on the right and below of the region that is pasted, beyond the box and in
    /// units of √(w h).
    pub margins: Option<[f64; 4]>,
}

impl Change {
    /// No change.
    pub const NONE: Self = Self { mirrored: false, tint: [1.; 3], blur: None, margins: None };

    /// Pastes the object onto `background`, if margins are set, and mirrors the crop. Returns the box of the
    /// object `(x, y, w, h)` afterwards.
    pub fn rearrange(&self, crop: &mut [u8], background: &[u8], size: usize, object: [f32; 4]) -> [f32; 4] {
        if let Some(margins) = self.margins {
            paste(crop, background, size, object.map(f64::from), margins);
        }
        if !self.mirrored {
            return object;
        }
        for row in crop.chunks_exact_mut(3 * size) {
            row.as_chunks_mut::<3>().0.reverse();
        }
        let [x, y, width, height] = object;
        [(size - 1) as f32 - x - width, y, width, height]
    }

    /// Blurs the crop of `size` pixels in the rows of `planes` from `row` on.
    pub fn blur(&self, planes: &mut Planes<'_>, row: usize, size: usize) -> Result<()> {
        let Some(sigma) = self.blur else { return Ok(()) };
        let view = PatchView { transform: PatchTransform::Blur { sigma }, shift: [0, 0] };
        let mut crop: [Vec<f32>; 3] = [(); 3].map(|()| Vec::with_capacity(size * size));
        for y in row..row + size {
            crop.iter_mut().zip(planes.rows(y, size)).for_each(|(plane, row)| plane.extend_from_slice(row));
        }
        let crop = view.apply(&crop.concat(), size, size)?;
        for (y, start) in (row..row + size).zip((0..).step_by(size)) {
            for (row, plane) in planes.rows(y, size).into_iter().zip(crop.chunks_exact(size * size)) {
                row.copy_from_slice(&plane[start..start + size]);
            }
        }
        Ok(())
    }
}

/// Blends `crop` over `background` around `object`: opaque up to half of the margins, then fading out to their ends.
fn paste(crop: &mut [u8], background: &[u8], size: usize, object: [f64; 4], margins: [f64; 4]) {
    let [x, y, width, height] = object;
    let margins = margins.map(|margin| margin * (width * height).sqrt());
    let opaque = |start: f64, extent: f64, [before, after]: [f64; 2]| -> Vec<f64> {
        let at = |place: usize| {
            let place = place as f64;
            let beyond = ((start - place) / before).max((place - start - extent) / after);
            (2. - 2. * beyond).clamp(0., 1.)
        };
        (0..size).map(at).collect()
    };
    let across = opaque(x, width, [margins[0], margins[2]]);
    let down = opaque(y, height, [margins[1], margins[3]]);
    let rows = crop.chunks_exact_mut(3 * size).zip(background.chunks_exact(3 * size));
    for ((crop, background), down) in rows.zip(down) {
        let pixels = crop.as_chunks_mut::<3>().0.iter_mut().zip(background.as_chunks::<3>().0);
        for ((pixel, behind), across) in pixels.zip(&across) {
            let opaque = down * across;
            let mixed = |k: usize| f64::from(pixel[k]) * opaque + f64::from(behind[k]) * (1. - opaque);
            *pixel = std::array::from_fn(|k| mixed(k).round() as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 20;
    const OBJECT: [f32; 4] = [6., 4., 4., 4.];

    #[test]
    fn the_object_stays_and_what_is_far_from_it_is_replaced() {
        let (mut crop, background) = (vec![200; 3 * SIZE * SIZE], vec![10; 3 * SIZE * SIZE]);
        // √(4 · 4) = 4 pixels per unit: opaque for 1 pixel, transparent after 2.
        let change = Change { margins: Some([0.5; 4]), ..Change::NONE };
        assert_eq!(change.rearrange(&mut crop, &background, SIZE, OBJECT), OBJECT);
        let at = |x: usize, y: usize| crop[3 * (y * SIZE + x)];
        assert!((5..=11).all(|x| (3..=9).all(|y| at(x, y) == 200)));
        for (x, y) in [(4, 6), (12, 6), (8, 2), (8, 10), (0, 0), (19, 19)] {
            assert_eq!(at(x, y), 10, "{x} {y}");
        }
    }

    #[test]
    fn a_mirrored_crop_has_its_object_mirrored() {
        let mut crop = vec![0; 3 * SIZE * SIZE];
        // The pixels from the box's first to its last edge, with a pixel at its index.
        for (y, x) in (4..=8).flat_map(|y| (6..=10).map(move |x| (y, x))) {
            crop[3 * (y * SIZE + x)] = 255;
        }
        let change = Change { mirrored: true, ..Change::NONE };
        let [x, y, width, height] = change.rearrange(&mut crop, &[], SIZE, OBJECT);
        assert_eq!([x, y, width, height], [9., 4., 4., 4.]);
        let columns: Vec<usize> = (0..SIZE).filter(|x| crop[3 * (5 * SIZE + x)] == 255).collect();
        assert_eq!(columns, [9, 10, 11, 12, 13]);
    }

    #[test]
    fn half_of_the_crops_are_mirrored_and_margins_keep_their_range() {
        let changes: Vec<_> = (0..1000).map(|i| Variation::STILLS.draw(Key::new(i))).collect();
        // 500 expected, with a standard deviation of 16; 250 and 300 with 14.
        let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count();
        assert!((430..570).contains(&count(|change| change.mirrored)));
        assert!((190..310).contains(&count(|change| change.margins.is_some())));
        assert!((240..360).contains(&count(|change| change.blur.is_some())));
        let margins = changes.iter().filter_map(|change| change.margins).flatten();
        assert!(margins.into_iter().all(|margin| (MARGIN[0]..MARGIN[1]).contains(&margin)));
        let tints = changes.iter().flat_map(|change| change.tint);
        assert!(tints.into_iter().all(|tint| (0.85..1.15).contains(&tint)));
        let wrong = Variation { blur: 100., ..Variation::STILLS };
        assert!(Variation::STILLS.check().is_ok() && wrong.check().is_err());
    }
}
