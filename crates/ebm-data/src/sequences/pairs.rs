//! Batches of pairs: what to look for, and where it is looked for.
//!
//! ```no_run
//! # fn main() -> ebm_data::Result<()> {
//! use std::sync::Arc;
//! use ebm_data::loader::{Loader, LoaderConfig};
//! use ebm_data::sequences::pairs::PairRecipe;
//! use ebm_data::sequences::sampler::{PairSampler, PairSampling, Source};
//! use ebm_data::sequences::{SequenceOptions, trackingnet};
//!
//! let videos = trackingnet::load("TrackingNet".as_ref(), &trackingnet::Set::ATOM, &SequenceOptions::train())?;
//! let sources = vec![Source { sequences: videos.sequences, weight: 1. }];
//! let pairs = Arc::new(PairSampler::new(sources, PairSampling::PAPER)?);
//! let loader = Loader::new(pairs, LoaderConfig::in_order(PairRecipe::ATOM, 64), ebm_seed::Key::new(0))?;
//! for batch in loader.epoch(0)? {
//!     assert_eq!(batch?.shape, (64, 3, 2 * 288, 288));
//! }
//! # Ok(())
//! # }
//! ```

use std::path::PathBuf;

use ebm_seed::Key;
use rand::{Rng as _, RngCore};
use rand_distr::StandardNormal;

use super::crop::SearchArea;
use super::sampler::{Pair, PairSampler};
use super::{Rect, Sequence};
use crate::decode::DecodeLimits;
use crate::draw::unit;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::loader::recipe::read_sample;
use crate::loader::{Item, Planes, Prepared, Recipe, check_probability, no_sample};
use crate::quarantine::{Defect, DefectCode};
use crate::transform::Normalise;

/// How a pair of frames becomes a part of a batch `(N, 3, 2S, S)`: rows 0 to S − 1 are the reference crop,
/// rows S to 2S − 1 the test crop.
///
/// The reference crop lies around the target, the test crop around a jittered box: its sides are those of the
/// target times exp(`scale_jitter` · N(0, 1)) each, its centre is moved by (U(0, 1) − ½) · `centre_jitter` ·
/// √(w h) of that box on each axis. The crops are grey both or neither, each has a brightness of its own, and
/// both are normalised.
///
/// An item's key is split into `"pair"`, which [`PairSampler::draw`] gets, `"jitter"` and `"augment"`. The
/// order of the items means nothing, so a [`LoaderConfig`](crate::loader::LoaderConfig) need not shuffle
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRecipe {
    /// What a crop shows, and its size S.
    pub area: SearchArea,
    /// The standard deviation of the logarithm of the factors of the test box's sides.
    pub scale_jitter: f64,
    /// The greatest distance of the test box's centre on both sides together, in units of √(w h).
    pub centre_jitter: f64,
    /// The probability that both crops are grey.
    pub grey_probability: f64,
    /// Samples are multiplied by U(1 − this, 1 + this), at most white.
    pub brightness: f64,
    /// Normalisation.
    pub normalise: Normalise,
}

impl PairRecipe {
    /// To train as ATOM: 288 pixels, scale 0.5, centre 4.5, 1 grey pair in 20, brightness 0.8 to 1.2,
    /// ImageNet's normalisation.
    pub const ATOM: Self = Self {
        area: SearchArea::ATOM,
        scale_jitter: 0.5,
        centre_jitter: 4.5,
        grey_probability: 0.05,
        brightness: 0.2,
        normalise: Normalise::IMAGENET,
    };

    /// To validate as ATOM: jittered, but in the frames' own colours.
    pub const ATOM_VALIDATION: Self = Self { grey_probability: 0., brightness: 0., ..Self::ATOM };

    /// The box around which the test crop of a frame with the box `target` lies: two normal factors, for the
    /// width and the height, then two uniform offsets, in x and y.
    pub fn jitter(&self, target: Rect, rng: &mut dyn RngCore) -> Rect {
        let [x, y, width, height] = target;
        let [across, down] = [width, height]
            .map(|side| side * (self.scale_jitter * rng.sample::<f64, _>(StandardNormal)).exp());
        let reach = self.centre_jitter * (across * down).sqrt();
        let [cx, cy] = [x + 0.5 * width, y + 0.5 * height].map(|centre| centre + (unit(rng) - 0.5) * reach);
        [cx - 0.5 * across, cy - 0.5 * down, across, down]
    }

    fn check(&self) -> Result<()> {
        self.area.check()?;
        self.normalise.check()?;
        check_probability("grey_probability", self.grey_probability)?;
        check_probability("brightness", self.brightness)?;
        for (name, jitter) in [("scale_jitter", self.scale_jitter), ("centre_jitter", self.centre_jitter)] {
            if !(jitter >= 0. && jitter.is_finite()) {
                return Err(Error::Argument { name, detail: format!("{jitter} is negative or not finite") });
            }
        }
        Ok(())
    }

    fn read(&self, frame: &Frame<'_>, memory: &mut PairMemory) -> Result<Prepared<Image>> {
        read_sample(&frame.path(), || frame.name(), frame.limits, std::mem::take(&mut memory.decoded))
    }

    /// Writes the crop around `around` to the planes from row `row` on and returns the target's box in it.
    fn write(
        &self,
        (frame, image): (&Frame<'_>, &Image),
        around: Rect,
        colours: Colours,
        (planes, row): (&mut Planes<'_>, usize),
        memory: &mut PairMemory,
    ) -> Result<Prepared<[f32; 4]>> {
        let target = frame.sequence.boxes[frame.place];
        let placed =
            self.area.window(around).and_then(|window| Ok((window, self.area.box_in_crop(target, around)?)));
        let (window, target) = match placed {
            Ok(placed) => placed,
            Err(error) => {
                let (code, detail) = (DefectCode::BoxTooLarge, error.to_string());
                return Ok(Err(Defect { file: frame.path(), sample: frame.name(), code, detail }));
            }
        };
        self.area.crop_into(image, window, &mut memory.cropped)?;
        let tables = self.normalise.brightened(colours.brightness as f32);
        let size = self.area.size;
        for (y, pixels) in memory.cropped.chunks_exact(3 * size).enumerate() {
            let [first, second, third] = planes.rows(row + y, size);
            let targets = first.iter_mut().zip(second).zip(third);
            for (((first, second), third), &pixel) in targets.zip(pixels.as_chunks::<3>().0) {
                let pixel = if colours.grey { [luma(pixel); 3] } else { pixel };
                [*first, *second, *third, _] = tables.pixel(pixel);
            }
        }
        Ok(Ok(target))
    }

    /// Of the reference crop and of the test crop.
    fn colours(&self, key: Key) -> [Colours; 2] {
        let rng = &mut key.rng();
        let grey = unit(rng) < self.grey_probability;
        [(); 2].map(|()| Colours { grey, brightness: 1. + self.brightness * (2. * unit(rng) - 1.) })
    }
}

/// One frame to crop.
struct Frame<'a> {
    sequence: &'a Sequence,
    place: usize,
    limits: &'a DecodeLimits,
}

impl Frame<'_> {
    fn path(&self) -> PathBuf {
        self.sequence.frames.path(self.place).unwrap_or_default()
    }

    fn name(&self) -> String {
        format!("frame {} of sequence {}", self.place + 1, self.sequence.name)
    }
}

#[derive(Clone, Copy)]
struct Colours {
    grey: bool,
    brightness: f64,
}

/// The grey of a pixel (ITU-R BT.601: 0.299, 0.587, 0.114), rounded.
fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue) + 500) / 1000) as u8
}

/// What a batch knows of one of its pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct PairSample {
    /// The item's index in the epoch.
    pub index: usize,
    /// Which frames the pair consists of.
    pub pair: Pair,
    /// The target's box in the reference crop, `(x, y, w, h)` in its pixels, see [`SearchArea::box_in_crop`].
    pub reference_box: [f32; 4],
    /// The target's box in the test crop, likewise.
    pub test_box: [f32; 4],
}

/// What one thread uses again from pair to pair.
#[derive(Default)]
pub struct PairMemory {
    decoded: Vec<u8>,
    cropped: Vec<u8>,
}

impl Recipe for PairRecipe {
    type Dataset = PairSampler;
    type Sample = PairSample;
    type Memory = PairMemory;

    fn check(&self, _: &PairSampler) -> Result<()> {
        self.check()
    }

    /// [`PairSampling::pairs_per_epoch`](super::sampler::PairSampling::pairs_per_epoch).
    fn count(dataset: &PairSampler) -> usize {
        dataset.sampling().pairs_per_epoch
    }

    /// Two crops, one above the other.
    fn input_size(&self, _: &PairSampler, _: &[usize]) -> (usize, usize) {
        (2 * self.area.size, self.area.size)
    }

    fn prepare(
        &self,
        Item { dataset, index, key, limits }: Item<'_, PairSampler>,
        planes: &mut Planes<'_>,
        memory: &mut PairMemory,
    ) -> Result<Prepared<PairSample>> {
        let pair = dataset.draw(key.split("pair"));
        let Some(sequence) = dataset.sequence(&pair) else { return Err(no_sample(index)) };
        let [reference, test] = [pair.reference, pair.test].map(|place| Frame { sequence, place, limits });
        let (own, jittered) = (sequence.boxes[pair.reference], sequence.boxes[pair.test]);
        let jittered = self.jitter(jittered, &mut key.split("jitter").rng());
        let [first, second] = self.colours(key.split("augment"));
        let image = match self.read(&reference, memory)? {
            Ok(image) => image,
            Err(defect) => return Ok(Err(defect)),
        };
        let outcome = self.write((&reference, &image), own, first, (&mut *planes, 0), memory)?;
        let reference_box = match outcome {
            Ok(placed) => placed,
            Err(defect) => return Ok(Err(defect)),
        };
        let image = if pair.reference == pair.test {
            image
        } else {
            memory.decoded = image.pixels;
            match self.read(&test, memory)? {
                Ok(image) => image,
                Err(defect) => return Ok(Err(defect)),
            }
        };
        let outcome = self.write((&test, &image), jittered, second, (planes, self.area.size), memory)?;
        memory.decoded = image.pixels;
        Ok(outcome.map(|test_box| PairSample { index, pair, reference_box, test_box }))
    }
}
