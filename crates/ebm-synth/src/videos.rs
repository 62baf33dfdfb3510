//! Drawn videos of one target each, with exact boxes, in OTB's layout, for quick checks of trackers and for tests.
//!
//! The target and its distractors are figures of [`scenes`](crate::scenes) that move along smooth curves and change
//! their size. The target is in front. The bytes of a video depend only on its key and configuration.

use std::f32::consts::TAU;
use std::ops::RangeInclusive;
use std::path::Path;

use ebm_base::{Key, Rng};
use ebm_data::encode::write_jpeg;
use ebm_data::files::create_dir;
use ebm_data::sequences::{Frames, Rect, Sequence, read_boxes, write_boxes};
use ebm_data::{Image, Result};
use rand::Rng as _;
use rayon::prelude::*;
use serde::Serialize;

use crate::drawing::{
    Canvas, FIGURES, JPEG_QUALITY, Mask, Point, Surface, check, extent, figure, log_uniform, place,
};
use crate::generated_dir::{Kind, make};

const IMAGES: &str = "img";
const BOXES: &str = "groundtruth_rect.txt";
const KIND: Kind = Kind { what: "videos", manifest: "videos.json", digest: "digest", version: 3 };
const MOST: usize = 9999;
/// Largest factor by which an object grows or shrinks relative to the first frame.
const GROWTH: f32 = 1.6;

/// Settings of generated videos. Lengths are in pixels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VideoConfig {
    /// Number of columns of each frame.
    pub width: usize,
    /// Number of rows of each frame.
    pub height: usize,
    /// Number of frames of each video.
    pub frames: usize,
    /// Diameter of the objects in the first frame; small ones are more frequent.
    pub size: RangeInclusive<f32>,
    /// Number of other objects; every second one has the target's category.
    pub distractors: usize,
    /// Largest movement of an object's middle between two frames; its logarithm is uniform.
    pub speed: RangeInclusive<f32>,
    /// Largest noise either way, in 8-bit levels.
    pub noise: f32,
}

impl Default for VideoConfig {
    fn default() -> Self {
        Self {
            width: 240,
            height: 180,
            frames: 60,
            size: 26.0..=60.0,
            distractors: 4,
            speed: 1.5..=8.0,
            noise: 8.0,
        }
    }
}

impl VideoConfig {
    fn validate(&self) -> Result<()> {
        let shorter = self.width.min(self.height) as f32;
        let (size, speed) = (&self.size, &self.speed);
        let sized = *size.start() >= 8.0 && !size.is_empty() && *size.end() <= 0.4 * shorter;
        let moves = *speed.start() > 0.0 && !speed.is_empty() && *speed.end() <= shorter;
        let fields = [
            ("width", (64..=4096).contains(&self.width), "be in 64..=4096 pixels"),
            ("height", (64..=4096).contains(&self.height), "be in 64..=4096 pixels"),
            ("frames", (2..=MOST).contains(&self.frames), "be in 2..=9999"),
            ("size", sized, "be in 8..=0.4 of the shorter side"),
            ("distractors", self.distractors <= 50, "be 50 or less"),
            ("speed", moves, "be above 0 and at most the shorter side"),
            ("noise", (0.0..=64.0).contains(&self.noise), "be in 0..=64 levels"),
        ];
        check("a video", fields)
    }
}

/// Object of a video. Its middle moves on two sines, its size follows a third.
#[derive(Clone, Debug)]
struct Actor {
    figure: Vec<Point>,
    surface: Surface,
    radius: f32,
    /// Middle of the course, its reach to either side, frequency and phase, for x and for y.
    course: [[f32; 4]; 2],
    /// Frequency and phase of the size.
    growth: [f32; 2],
}

impl Actor {
    fn draw(config: &VideoConfig, category: usize, rng: &mut Rng) -> Self {
        let radius = 0.5 * log_uniform(&config.size, rng);
        let speed = log_uniform(&config.speed, rng);
        // The object stays inside even at its largest size.
        let room = radius * GROWTH + 1.0;
        let course = [config.width, config.height].map(|side| {
            let half = 0.5 * side as f32;
            let reach = ((half - room) * rng.random_range(0.4..=1.0)).max(1.0);
            let slack = (half - room - reach).max(0.0);
            let middle = half + rng.random_range(-slack..=slack);
            // A sine is fastest at the middle of its course; both axes together move by at most `speed`.
            [middle, reach, speed / (2f32.sqrt() * reach), rng.random_range(0.0..=TAU)]
        });
        let period = config.frames as f32 * rng.random_range(0.5..=1.5);
        let growth = [TAU / period, rng.random_range(0.0..=TAU)];
        Self { figure: figure(category, rng), surface: Surface::of(category, rng), radius, course, growth }
    }

    /// Returns the corners, the middle and the radius.
    fn at(&self, frame: usize) -> (Vec<Point>, Point, f32) {
        let t = frame as f32;
        let wave = |t: f32| (self.growth[0] * t + self.growth[1]).sin();
        // Half of the range to either side of the first frame's size.
        let radius = self.radius * (0.5 * GROWTH.ln() * (wave(t) - wave(0.0))).exp();
        let place_at =
            |[middle, reach, frequency, phase]: [f32; 4]| middle + reach * (frequency * t + phase).sin();
        let center = self.course.map(place_at);
        (place(&self.figure, center, radius), center, radius)
    }
}

/// Video whose frames are not drawn yet, a function of the configuration and the key.
#[derive(Clone, Debug)]
pub struct Video {
    config: VideoConfig,
    key: Key,
    ground: Canvas,
    /// Objects of the video; the target is the last one.
    actors: Vec<Actor>,
}

impl Video {
    /// Draws all random properties of a video, but no frame.
    ///
    /// # Errors
    /// [`ebm_data::Error::Argument`] if the configuration is not valid.
    pub fn new(config: &VideoConfig, key: Key) -> Result<Self> {
        config.validate()?;
        let surface = Surface::ground(&mut key.split("ground").rng());
        let ground = Canvas::new(config.width, config.height, &surface);
        let target = key.split("target").rng().random_range(0..FIGURES.len());
        let actor = |index: usize| {
            let mut rng = key.split("actor").index(index as u64).rng();
            let other = rng.random_range(0..FIGURES.len());
            let is_target = index == config.distractors || index.is_multiple_of(2);
            Actor::draw(config, if is_target { target } else { other }, &mut rng)
        };
        let actors = (0..=config.distractors).map(actor).collect();
        Ok(Self { config: config.clone(), key, ground, actors })
    }

    /// Returns the target's box (x, y, width, height) in each frame. The image covers `[0, width] x [0, height]`.
    pub fn boxes(&self) -> Vec<Rect> {
        let Some(target) = self.actors.last() else { return Vec::new() };
        let of_frame = |frame| {
            let [left, top, right, bottom] = extent(&target.at(frame).0).map(f64::from);
            [left, top, right - left, bottom - top]
        };
        (0..self.config.frames).map(of_frame).collect()
    }

    /// Draws frame `index`, counted from 0.
    ///
    /// # Errors
    /// [`ebm_data::Error::Argument`] if there is no such frame.
    pub fn frame(&self, index: usize) -> Result<Image> {
        check("a video", [("frame", index < self.config.frames, "be one of its frames, counted from 0")])?;
        let mut canvas = self.ground.clone();
        for actor in &self.actors {
            let (corners, center, radius) = actor.at(index);
            canvas.paint(&Mask::new(&corners), &actor.surface, center, radius);
        }
        Ok(canvas.expose(self.config.noise, &mut self.key.split("noise").index(index as u64).rng()))
    }
}

/// Writes `count` videos into `dir`, or reuses existing ones. Returns them with their boxes, rounded to 0.001 pixels.
///
/// Video `i` (from 0) is [`Video::new`] of `config` and `key.index(i)`. All is written beside `dir` and then renamed.
///
/// # Errors
/// [`ebm_data::Error::Argument`] if the configuration is not valid, `count` is not in 1..=9999, or `dir` holds other
/// files; [`ebm_data::Error::Io`] or [`ebm_data::Error::Failure`] if a file cannot be written.
pub fn generate(dir: &Path, config: &VideoConfig, count: usize, key: Key) -> Result<Vec<Sequence>> {
    config.validate()?;
    check("videos", [("count", (1..=MOST).contains(&count), "be in 1..=9999")])?;
    let name = |index: usize| format!("video_{:04}", index + 1);
    let frame = |dir: &Path, frame: usize| dir.join(IMAGES).join(format!("{:04}.jpg", frame + 1));
    let files = |dir: &Path| {
        let of_video = |index| {
            let dir = dir.join(name(index));
            let frames = (0..config.frames).map(|index| frame(&dir, index));
            frames.chain([dir.join(BOXES)]).collect::<Vec<_>>()
        };
        (0..count).flat_map(of_video).collect()
    };
    let write = |dir: &Path| {
        (0..count).into_par_iter().try_for_each(|index| {
            let dir = dir.join(name(index));
            let images = dir.join(IMAGES);
            create_dir(&images)?;
            let video = Video::new(config, key.index(index as u64))?;
            write_boxes(&dir.join(BOXES), &video.boxes(), ",", |number| format!("{number:.3}"))?;
            (0..config.frames)
                .try_for_each(|at| write_jpeg(&frame(&dir, at), &video.frame(at)?, JPEG_QUALITY))
        })
    };
    make(dir, &KIND, config, count, key, files, write)?;
    let sequence = |index| {
        let (name, count) = (name(index), config.frames);
        let dir = dir.join(&name);
        let boxes = read_boxes(&dir.join(BOXES))?;
        let frames = Frames::Numbered { directory: dir.join(IMAGES), first: 1, count, digits: 4 };
        Ok(Sequence { name, frames, boxes, visible: None })
    };
    (0..count).map(sequence).collect()
}
