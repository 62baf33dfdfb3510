//! Drawn videos of one target each, with exact boxes, in OTB's layout: a quick check of trackers, and data for tests.
//!
//! The target and its distractors are objects of [`scenes`](crate::scenes) that run along smooth curves over a cluttered background, and grow and shrink.
//! Strips stand in front of them. The bytes of a video depend on its key and configuration alone.

use std::f32::consts::TAU;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use ebm_data::encode::write_jpeg;
use ebm_data::sequences::{Frames, Rect, Sequence, read_boxes, write_boxes};
use ebm_data::{Error, Image, Result};
use ebm_seed::{Key, Rng};
use rand::Rng as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::drawing::layer::Canvas;
use crate::drawing::sensor::expose;
use crate::drawing::shape::{Category, Silhouette};
use crate::generated_dir::{Kind, make};
use crate::scenes::{Appearance, Background, Placed, SceneConfig};

const IMAGES: &str = "img";
const BOXES: &str = "groundtruth_rect.txt";
const KIND: Kind = Kind { what: "videos", manifest: "videos.json", digest: "digest", version: 2 };
const MOST: usize = 9999;
/// Light from the upper left.
const LIGHT: [f32; 2] = [-0.6, -0.8];

/// The distribution of videos. Lengths are in pixels.
///
/// In a configuration file every key is optional; unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VideoConfig {
    /// Columns of each frame.
    pub width: usize,
    /// Rows of each frame.
    pub height: usize,
    /// Frames of each video.
    pub frames: usize,
    /// Nominal diameter of the target in the first frame; small ones are more frequent.
    pub size: RangeInclusive<f32>,
    /// The number of other objects, every second one of the target's category.
    pub distractors: usize,
    /// The number of strips that stand in front.
    pub occluders: usize,
    /// The most that an object's middle moves from a frame to the next, uniform in its logarithm.
    pub speed: RangeInclusive<f32>,
    /// The largest factor by which an object grows or shrinks against the first frame.
    pub scale_change: f32,
    /// The amount of clutter in the background, 0..=1.
    pub clutter: f32,
    /// Standard deviation of the sensor noise at mid-grey, in 8-bit levels.
    pub noise: f32,
    /// JPEG quality, 1..=100.
    pub jpeg_quality: u8,
}

impl Default for VideoConfig {
    fn default() -> Self {
        Self {
            width: 240,
            height: 180,
            frames: 60,
            size: 26.0..=60.0,
            distractors: 4,
            occluders: 1,
            speed: 1.5..=8.0,
            scale_change: 1.6,
            clutter: 0.7,
            noise: 4.0,
            jpeg_quality: 90,
        }
    }
}

impl VideoConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::Argument`] with the first field that is out of range.
    pub fn validate(&self) -> Result<()> {
        let shorter = self.width.min(self.height) as f32;
        let (size, speed) = (&self.size, &self.speed);
        let fields = [
            ("width", (64..=4096).contains(&self.width), "must be in 64..=4096 pixels"),
            ("height", (64..=4096).contains(&self.height), "must be in 64..=4096 pixels"),
            ("frames", (2..=MOST).contains(&self.frames), "must be in 2..=9999"),
            (
                "size",
                *size.start() >= 8.0 && size.start() <= size.end() && *size.end() <= 0.4 * shorter,
                "must be in 8..=0.4 of the shorter side",
            ),
            ("distractors", self.distractors <= 50, "must be 50 or less"),
            ("occluders", self.occluders <= 50, "must be 50 or less"),
            (
                "speed",
                *speed.start() > 0.0 && speed.start() <= speed.end() && *speed.end() <= shorter,
                "must be above 0 and at most the shorter side",
            ),
            ("scale_change", (1.0..=2.5).contains(&self.scale_change), "must be in 1..=2.5"),
            ("clutter", (0.0..=1.0).contains(&self.clutter), "must be in 0..=1"),
            ("noise", (0.0..=64.0).contains(&self.noise), "must be in 0..=64 levels"),
            ("jpeg_quality", (1..=100).contains(&self.jpeg_quality), "must be in 1..=100"),
        ];
        match fields.into_iter().find(|(_, valid, _)| !valid) {
            Some((name, _, text)) => Err(Error::Argument { name, detail: format!("of a video {text}") }),
            None => Ok(()),
        }
    }
}

/// An object through time: its middle runs on two sines, its size on a third.
#[derive(Clone, Debug)]
struct Actor {
    category: Category,
    /// Of the figure's random numbers, which give the same figure at every size.
    figure: Key,
    radius: f32,
    center: [f32; 2],
    reach: [f32; 2],
    frequency: [f32; 2],
    phase: [f32; 2],
    /// The logarithm of the largest factor, its frequency and its phase.
    growth: [f32; 3],
}

impl Actor {
    fn draw(config: &VideoConfig, category: Category, key: Key) -> Self {
        let mut rng = key.split("course").rng();
        let radius = 0.5 * log_uniform(&config.size, &mut rng);
        let speed = log_uniform(&config.speed, &mut rng);
        // It stays inside, however large it becomes, with a handle or an antenna.
        let room = 1.5 * radius * config.scale_change + 1.0;
        let axis = |side: usize, rng: &mut Rng| {
            let half = 0.5 * side as f32;
            let reach = ((half - room) * rng.random_range(0.4..=1.0)).max(1.0);
            let slack = (half - room - reach).max(0.0);
            // Sines are fastest where they cross the middle; on both axes together at most `speed`.
            [
                half + rng.random_range(-slack..=slack),
                reach,
                speed / (2f32.sqrt() * reach),
                rng.random_range(0.0..=TAU),
            ]
        };
        let [x, y] = [axis(config.width, &mut rng), axis(config.height, &mut rng)];
        let period = config.frames as f32 * rng.random_range(0.5..=1.5);
        let growth = [config.scale_change.ln(), TAU / period, rng.random_range(0.0..=TAU)];
        let [center, reach, frequency, phase] = [0, 1, 2, 3].map(|part| [x[part], y[part]]);
        Self { category, figure: key.split("figure"), radius, center, reach, frequency, phase, growth }
    }

    fn scale(&self, frame: usize) -> f32 {
        let [most, frequency, phase] = self.growth;
        let wave = |t: f32| (frequency * t + phase).sin();
        // Half of the range to either side of the first frame's size.
        self.radius * (0.5 * most * (wave(frame as f32) - wave(0.0))).exp()
    }

    fn silhouette(&self, frame: usize) -> Silhouette {
        let at = [0, 1].map(|axis| {
            self.center[axis]
                + self.reach[axis] * (self.frequency[axis] * frame as f32 + self.phase[axis]).sin()
        });
        Silhouette::draw(self.category, self.scale(frame), &mut self.figure.rng()).translated(at)
    }

    fn placed(&self, frame: usize, config: &VideoConfig) -> Placed {
        let (silhouette, scale) = (self.silhouette(frame), self.scale(frame));
        Placed::new(Some(self.category), silhouette, scale, (config.width, config.height))
    }
}

/// A video before its frames are drawn, a function of configuration and key alone.
#[derive(Clone, Debug)]
pub struct Video {
    config: VideoConfig,
    key: Key,
    world: Canvas,
    /// The target is the last.
    actors: Vec<(Actor, Appearance)>,
    strips: Vec<(Placed, Appearance)>,
}

impl Video {
    /// Draws everything but the frames.
    ///
    /// # Errors
    /// [`Error::Argument`] if the configuration is not valid.
    pub fn new(config: &VideoConfig, key: Key) -> Result<Self> {
        config.validate()?;
        let &VideoConfig { width, height, clutter, .. } = config;
        let scene = SceneConfig { width, height, clutter, blur: 0.5, faint: 0.0, ..SceneConfig::default() };
        let world = Background::of_scene(&scene).paint(key.split("world"));
        let mut rng = key.split("categories").rng();
        let mut any = || Category::ALL[rng.random_range(0..Category::ALL.len())];
        let target = any();
        let categories = (0..config.distractors).map(|index| if index % 2 == 0 { target } else { any() });
        let categories: Vec<Category> = categories.chain([target]).collect();
        let actors = categories.into_iter().enumerate().map(|(index, category)| {
            let key = key.split("actor").index(index as u64);
            let actor = Actor::draw(config, category, key);
            let mut rng = key.split("look").rng();
            let look = Appearance::of_object(&actor.placed(0, config), &world, &scene, LIGHT, &mut rng);
            (actor, look)
        });
        let strips = (0..config.occluders).map(|index| {
            let mut rng = key.split("strip").index(index as u64).rng();
            let half_width = height as f32 * rng.random_range(0.015..=0.04);
            let figure = Silhouette::strip(height as f32 * rng.random_range(0.4..=0.9), half_width, &mut rng);
            let at = [width, height].map(|side| side as f32 * rng.random_range(0.2..=0.8));
            let placed = Placed::new(None, figure.translated(at), half_width, (width, height));
            let look = Appearance::of_clutter(&placed, &world, 0.5, &mut rng);
            (placed, look)
        });
        let (actors, strips) = (actors.collect(), strips.collect());
        Ok(Self { config: config.clone(), key, world, actors, strips })
    }

    /// Returns the target's box (x, y, width, height) in each frame: the extent of its whole silhouette, hidden parts included. The image covers
    /// `[0, width] x [0, height]`.
    pub fn boxes(&self) -> Vec<Rect> {
        let Some((target, _)) = self.actors.last() else { return Vec::new() };
        let of_frame = |frame| {
            let [x0, y0, x1, y1] = target.silhouette(frame).extent().map(f64::from);
            [x0, y0, x1 - x0, y1 - y0]
        };
        (0..self.config.frames).map(of_frame).collect()
    }

    /// Draws frame `index`, counted from 0.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is no such frame.
    pub fn frame(&self, index: usize) -> Result<Image> {
        let VideoConfig { width, height, frames, noise, .. } = self.config;
        if index >= frames {
            let detail = format!("{index} of a video of {frames} frames, counted from 0");
            return Err(Error::Argument { name: "frame", detail });
        }
        let mut canvas = self.world.clone();
        for (actor, look) in &self.actors {
            look.draw(&actor.placed(index, &self.config), &mut canvas, LIGHT);
        }
        for (strip, look) in &self.strips {
            look.draw(strip, &mut canvas, LIGHT);
        }
        let pixels = expose(&canvas, noise, &mut self.key.split("sensor").index(index as u64).rng());
        Ok(Image { width, height, pixels })
    }
}

fn log_uniform(range: &RangeInclusive<f32>, rng: &mut Rng) -> f32 {
    rng.random_range(range.start().ln()..=range.end().ln()).exp()
}

/// Writes `count` videos into `dir`, or reuses them if `dir` holds the same ones already, and returns them with their boxes, to 0.001 pixels.
///
/// Video `i` (from 0) is [`Video::new`]'s of `config` and `key.index(i)`, whatever `count` is. All is written beside `dir` and renamed at the end.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid, `count` is not in 1..=9999, or `dir` holds anything else than these videos;
/// [`Error::Io`] or [`Error::Encode`] if a file cannot be written.
pub fn generate(dir: &Path, config: &VideoConfig, count: usize, key: Key) -> Result<Vec<Sequence>> {
    config.validate()?;
    if !(1..=MOST).contains(&count) {
        let detail = format!("{count} videos: give a number in 1..={MOST}");
        return Err(Error::Argument { name: "count", detail });
    }
    let name = |index: usize| format!("video_{:04}", index + 1);
    let frame = |dir: &Path, frame: usize| dir.join(IMAGES).join(format!("{:04}.jpg", frame + 1));
    let files = |dir: &Path| {
        let of_video = |index| {
            let dir = dir.join(name(index));
            let frames = (0..config.frames).map(|index| frame(&dir, index));
            frames.chain([dir.join(BOXES)]).collect::<Vec<_>>()
        };
        Ok((0..count).flat_map(of_video).collect())
    };
    let write = |dir: &Path| {
        (0..count).into_par_iter().try_for_each(|index| {
            let dir = dir.join(name(index));
            let images = dir.join(IMAGES);
            fs::create_dir_all(&images).map_err(|source| Error::io("create", &images, source))?;
            let video = Video::new(config, key.index(index as u64))?;
            write_boxes(&dir.join(BOXES), &video.boxes(), ",", |number| format!("{number:.3}"))?;
            (0..config.frames)
                .try_for_each(|at| write_jpeg(&frame(&dir, at), &video.frame(at)?, config.jpeg_quality))
        })
    };
    make(dir, &KIND, config, count, key, files, write)?;
    let sequence = |index| {
        let (name, count) = (name(index), config.frames);
        let dir = dir.join(&name);
        let boxes = read_boxes(&dir.join(BOXES))?;
        let (directory, prefix, extension) = (dir.join(IMAGES), String::new(), "jpg".to_owned());
        let frames = Frames::Numbered { directory, prefix, first: 1, count, digits: 4, extension };
        Ok(Sequence { name, frames, boxes, visible: None })
    };
    (0..count).map(sequence).collect()
}
