//! Batches of pairs of crops: a reference crop with the target, and a test crop to find it in.
//!
//! ```no_run
//! use std::sync::Arc;
//! use ebm_data::loader::{Loader, LoaderConfig};
//! use ebm_data::sequences::pairs::PairRecipe;
//! use ebm_data::sequences::sampler::{PairSampler, PairSampling, Source};
//! use ebm_data::sequences::{Dataset, SequenceOptions};
//!
//! let videos = Dataset::TrackingNetTrain.load("TrackingNet".as_ref(), &SequenceOptions::train())?;
//! let sources = vec![Source { sequences: videos.sequences, weight: 1. }];
//! let pairs = Arc::new(PairSampler::new(sources, PairSampling::PAPER)?);
//! let loader = Loader::new(pairs, LoaderConfig::in_order(PairRecipe::ATOM, 64), ebm_base::Key::new(0))?;
//! for batch in loader.epoch(0)? {
//!     assert_eq!(batch?.shape, (64, 3, 2 * 288, 288));
//! }
//! # Ok::<(), ebm_data::Error>(())
//! ```

use std::path::PathBuf;

use ebm_base::Key;
use rand::{Rng as _, RngCore};
use rand_distr::StandardNormal;

use super::crop::{CropMemory, SearchArea};
use super::sampler::{Pair, PairSampler};
use super::variation::{Change, Variation};
use super::{Rect, Sequence};
use crate::draw::unit;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::loader::recipe::read_sample;
use crate::loader::{Item, Planes, Recipe, check_range};
use crate::quarantine::{DefectCode, Finding, SampleResult};
use crate::transform::Normalise;

/// Conversion of a pair of frames to a part of a batch `(N, 3, 2S, S)`: rows 0 to S − 1 are the reference crop,
/// rows S to 2S − 1 the test crop.
///
/// The reference crop lies around the target, the test crop around a jittered box. Each side of that box is the
/// target's side times exp(`scale_jitter` · N(0, 1)). Its centre is moved by (U(0, 1) − ½) · `centre_jitter` ·
/// √(w h) of that box on each axis. Either both crops are grey or none. Each has its own brightness, and both are
/// normalised.
///
/// An item's key is split into `"pair"` for [`PairSampler::draw`], `"jitter"`, `"augment"`, and `"vary"` for
/// `variation`. The order of the items has no meaning, so a [`LoaderConfig`](crate::loader::LoaderConfig) need
/// not shuffle them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRecipe {
    /// Region that a crop shows, and its size S.
    pub area: SearchArea,
    /// Standard deviation of the logarithm of the factors of the test box's sides.
    pub scale_jitter: f64,
    /// Width of the range of the test box's centre on each axis, in units of √(w h).
    pub centre_jitter: f64,
    /// Probability that both crops are grey.
    pub grey_probability: f64,
    /// Range b of the brightness: samples are multiplied by U(1 − b, 1 + b), and clipped at white.
    pub brightness: f64,
    /// Normalisation of the pixels.
    pub normalise: Normalise,
    /// Further augmentation.
    pub variation: Option<Variation>,
    /// Number of consecutive pairs from the same sequence, at least 1. Each pair has its own frames, crops and
    /// colours.
    pub views: usize,
}

impl PairRecipe {
    /// Settings of ATOM's training: 288 pixels, scale 0.5, centre 4.5, 1 grey pair in 20, brightness 0.8 to 1.2,
    /// ImageNet's normalisation.
    pub const ATOM: Self = Self {
        area: SearchArea::ATOM,
        scale_jitter: 0.5,
        centre_jitter: 4.5,
        grey_probability: 0.05,
        brightness: 0.2,
        normalise: Normalise::IMAGENET,
        variation: None,
        views: 1,
    };

    /// Settings for training on still images, where both crops of a pair come from one image.
    pub const STILLS: Self = Self { variation: Some(Variation::STILLS), ..Self::ATOM };

    /// Settings of ATOM's validation: jittered, but without a change of colours.
    pub const ATOM_VALIDATION: Self = Self { grey_probability: 0., brightness: 0., ..Self::ATOM };

    /// Draws the box around which the test crop is cut, for a frame with the box `target`: two normal factors,
    /// for the width and the height, then two uniform offsets, in x and y.
    pub fn jitter(&self, target: Rect, rng: &mut dyn RngCore) -> Rect {
        jittered(target, [self.scale_jitter, self.centre_jitter], rng)
    }

    fn check(&self) -> Result<()> {
        self.area.check()?;
        self.normalise.check()?;
        check_range("grey_probability", self.grey_probability, 1.)?;
        check_range("brightness", self.brightness, 1.)?;
        check_range("scale_jitter", self.scale_jitter, f64::MAX)?;
        check_range("centre_jitter", self.centre_jitter, f64::MAX)?;
        if self.views == 0 {
            return Err(Error::Argument { name: "views", detail: "must be at least 1".to_owned() });
        }
        self.variation.map_or(Ok(()), |variation| variation.check())
    }

    /// Crops `image` around the box `around` into `pixels` and returns the target's box in the crop.
    fn cut(
        &self,
        (frame, image): (&Frame<'_>, &Image),
        around: Rect,
        pixels: &mut Vec<u8>,
        memory: &mut CropMemory,
    ) -> SampleResult<[f32; 4]> {
        let placed = self.area.window(around);
        let placed = placed.and_then(|window| Ok((window, self.area.box_in_crop(frame.target(), around)?)));
        let (window, target) = placed.map_err(|error| {
            Finding::new(DefectCode::BadBox, error.to_string()).into_sample_error(&frame.path(), frame.name())
        })?;
        self.area.crop_into(image, window, pixels, memory)?;
        Ok(target)
    }

    /// Writes the crop to the planes from row `row` on and returns the target's box in it.
    fn write(
        &self,
        plan: &CropPlan<'_>,
        image: &Image,
        (planes, row): (&mut Planes<'_>, usize),
        memory: &mut PairMemory,
    ) -> SampleResult<[f32; 4]> {
        let target = self.cut((&plan.frame, image), plan.around, &mut memory.cropped, &mut memory.crop)?;
        if let Some((frame, around)) = &plan.background {
            let behind = frame.read()?;
            self.cut((frame, &behind), *around, &mut memory.background, &mut memory.crop)?;
        }
        let (change, size) = (plan.change, self.area.size);
        let target = change.rearrange(&mut memory.cropped, &memory.background, size, target);
        let tables = self.normalise.brightened(change.tint.map(|tint| (tint * plan.brightness) as f32));
        for (y, pixels) in memory.cropped.chunks_exact(3 * size).enumerate() {
            let [first, second, third] = planes.rows(row + y, size);
            let targets = first.iter_mut().zip(second).zip(third);
            for (((first, second), third), &pixel) in targets.zip(pixels.as_chunks::<3>().0) {
                let pixel = if plan.grey { [luma(pixel); 3] } else { pixel };
                [*first, *second, *third, _] = tables.pixel(pixel);
            }
        }
        change.blur(planes, row, size)?;
        Ok(target)
    }

    /// Returns the frames and changes of the reference crop and the test crop of `pair`.
    fn crop_plans<'a>(&self, item: &Item<'a, PairSampler>, pair: &Pair) -> [CropPlan<'a>; 2] {
        let Item { dataset, key, .. } = *item;
        let sequence = dataset.sequence(pair);
        let [reference, test] = [pair.reference, pair.test].map(|place| Frame { sequence, place });
        let rng = &mut key.split("augment").rng();
        let grey = unit(rng) < self.grey_probability;
        let [first, second] = [(); 2].map(|()| 1. + self.brightness * (2. * unit(rng) - 1.));
        let vary = |crop: u64| key.split("vary").index(crop);
        let own = match self.variation {
            None => reference.target(),
            Some(Variation { scale_jitter, centre_jitter, .. }) => {
                let rng = &mut vary(0).split("jitter").rng();
                jittered(reference.target(), [scale_jitter, centre_jitter], rng)
            }
        };
        let around = self.jitter(test.target(), &mut key.split("jitter").rng());
        let plan = |key: Key, frame, around, brightness| {
            let change = self.variation.map_or(Change::NONE, |variation| variation.draw(key.split("change")));
            let behind = change.margins.map(|_| {
                let other = dataset.draw(key.split("background"));
                let frame = Frame { sequence: dataset.sequence(&other), place: other.reference };
                (frame, self.jitter(frame.target(), &mut key.split("behind").rng()))
            });
            CropPlan { frame, around, grey, brightness, change, background: behind }
        };
        [plan(vary(0), reference, own, first), plan(vary(1), test, around, second)]
    }
}

/// Moves the sides and the centre of the box `target` at random, see [`PairRecipe::jitter`].
fn jittered(target: Rect, [scale, centre]: [f64; 2], rng: &mut dyn RngCore) -> Rect {
    let [x, y, width, height] = target;
    let [across, down] =
        [width, height].map(|side| side * (scale * rng.sample::<f64, _>(StandardNormal)).exp());
    let reach = centre * (across * down).sqrt();
    let [cx, cy] = [x + 0.5 * width, y + 0.5 * height].map(|centre| centre + (unit(rng) - 0.5) * reach);
    [cx - 0.5 * across, cy - 0.5 * down, across, down]
}

/// Frame to crop.
#[derive(Clone, Copy)]
struct Frame<'a> {
    sequence: &'a Sequence,
    place: usize,
}

impl Frame<'_> {
    fn path(&self) -> PathBuf {
        self.sequence.frames.path(self.place).unwrap_or_default()
    }

    fn read(&self) -> SampleResult<Image> {
        read_sample(&self.path(), || self.name())
    }

    fn name(&self) -> String {
        format!("frame {} of sequence {}", self.place + 1, self.sequence.name)
    }

    fn target(&self) -> Rect {
        self.sequence.boxes[self.place]
    }
}

/// Crop to make.
struct CropPlan<'a> {
    frame: Frame<'a>,
    around: Rect,
    grey: bool,
    brightness: f64,
    change: Change,
    /// Frame onto which the object is copied, and the box around which it is cropped.
    background: Option<(Frame<'a>, Rect)>,
}

/// Returns the grey of a pixel (ITU-R BT.601: 0.299, 0.587, 0.114), rounded.
fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue) + 500) / 1000) as u8
}

/// Annotation of one pair of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct PairSample {
    /// Index of the item in the epoch.
    pub index: usize,
    /// Frames of the pair.
    pub pair: Pair,
    /// Box `(x, y, w, h)` of the target in pixels of the reference crop, see [`SearchArea::box_in_crop`].
    pub reference_box: [f32; 4],
    /// Box `(x, y, w, h)` of the target in pixels of the test crop.
    pub test_box: [f32; 4],
}

/// Memory that one thread reuses for all pairs.
#[derive(Default)]
pub struct PairMemory {
    cropped: Vec<u8>,
    background: Vec<u8>,
    crop: CropMemory,
}

impl Recipe for PairRecipe {
    type Dataset = PairSampler;
    type Sample = PairSample;
    type Memory = PairMemory;

    fn check(&self, _: &PairSampler) -> Result<()> {
        self.check()
    }

    /// Returns [`PairSampling::pairs_per_epoch`](super::sampler::PairSampling::pairs_per_epoch).
    fn count(dataset: &PairSampler) -> usize {
        dataset.sampling.pairs_per_epoch
    }

    /// Returns the size of two crops, one above the other.
    fn input_size(&self, _: &PairSampler, _: &[usize]) -> (usize, usize) {
        (2 * self.area.size, self.area.size)
    }

    fn prepare(
        &self,
        item: Item<'_, PairSampler>,
        planes: &mut Planes<'_>,
        memory: &mut PairMemory,
    ) -> SampleResult<PairSample> {
        let Item { dataset, index, epoch, .. } = item;
        let object = epoch.index((index - index % self.views) as u64).split("pair");
        let pair = dataset.draw_view(object, index % self.views);
        let [reference, test] = &self.crop_plans(&item, &pair);
        let mut image = reference.frame.read()?;
        let reference_box = self.write(reference, &image, (&mut *planes, 0), memory)?;
        if pair.reference != pair.test {
            image = test.frame.read()?;
        }
        let test_box = self.write(test, &image, (planes, self.area.size), memory)?;
        Ok(PairSample { index, pair, reference_box, test_box })
    }
}
