//! One video, from its key to boxes and frames.

use ebm_seed::Key;
use rand::Rng as _;

use super::camera::{Camera, Light};
use super::cast::{Cast, in_sight};
use super::config::VideoConfig;
use crate::drawing::layer::Canvas;
use crate::drawing::mask::Window;
use crate::drawing::sensor::expose;
use crate::scenes::Background;
use ebm_data::sequences::Rect;
use ebm_data::{Error, Image, Result};

/// A video: everything that is to be seen, before a frame of it is drawn. A function of configuration and key
/// alone.
#[derive(Clone, Debug)]
pub struct Video {
    config: VideoConfig,
    key: Key,
    world: Canvas,
    camera: Camera,
    cast: Cast,
    light: Light,
    /// How long the shutter is open, in frames.
    shutter: f32,
    /// Standard deviation of the sensor noise at mid-grey, in 8-bit levels.
    noise: f32,
}

impl Video {
    /// Draws everything but the pixels.
    ///
    /// # Errors
    /// [`Error::Argument`] if the configuration is not valid.
    pub fn new(config: &VideoConfig, key: Key) -> Result<Self> {
        config.validate()?;
        let (width, height) = Camera::world(config);
        let frames = (width * height) as f32 / (config.width * config.height) as f32;
        let background = Background {
            width,
            height,
            clutter: config.clutter,
            figures: (30.0 * config.clutter * frames) as u64,
            side: config.width.min(config.height) as f32,
        };
        let world = background.paint(key.split("world"));
        let camera = Camera::draw(config, &mut key.split("camera").rng());
        let [x, y] = camera.to_world(0).apply([0.5 * config.width as f32, 0.5 * config.height as f32]);
        let surround = world.mean(Window::around([x, y, x, y], 0.4 * config.height as f32));
        let cast = Cast::draw(config, &camera, surround, key.split("cast"));
        let mut rng = key.split("exposure").rng();
        let smears = rng.random_bool(f64::from(config.motion_blur));
        let shutter = if smears { rng.random_range(0.3..=0.9) } else { 0.0 };
        let noise = config.noise * rng.random_range(0.3..=1.0);
        let light = Light::draw(config, &mut rng);
        Ok(Self { config: config.clone(), key, world, camera, cast, light, shutter, noise })
    }

    /// The box of the target in each frame: the extent of its whole, sharp silhouette in the middle of the
    /// exposure, hidden parts and those outside the image included, exact up to rounding. NaN where all of it
    /// is outside the image.
    ///
    /// The image covers `[0, width] x [0, height]`, so a pixel's centre has coordinates ending in .5.
    pub fn boxes(&self) -> Vec<Rect> {
        let of_frame = |frame| {
            let extent = self.cast.target.extent(frame);
            let [x0, y0, x1, y1] = extent.map(f64::from);
            if in_sight(extent, &self.config) { [x0, y0, x1 - x0, y1 - y0] } else { [f64::NAN; 4] }
        };
        (0..self.config.frames).map(of_frame).collect()
    }

    /// Of each frame the fraction of the target's silhouette that lies behind something, to about 0.01.
    pub fn occlusion(&self) -> Vec<f32> {
        let Cast { target, front, .. } = &self.cast;
        (0..self.config.frames).map(|frame| target.hidden_behind(front, frame)).collect()
    }

    /// The pixels of frame `index`, counted from 0.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is no such frame.
    pub fn frame(&self, index: usize) -> Result<Image> {
        let VideoConfig { width, height, frames, .. } = self.config;
        if index >= frames {
            let detail = format!("{index} of a video of {frames} frames, counted from 0");
            return Err(Error::Argument { name: "frame", detail });
        }
        let mut canvas = self.camera.see(&self.world, index, self.shutter, width, height);
        for actor in self.cast.actors() {
            actor.look.draw(&actor.map(index), actor.blur(index, self.shutter), &mut canvas);
        }
        self.light.shine(&mut canvas, index);
        let mut rng = self.key.split("sensor").index(index as u64).rng();
        Ok(Image { width, height, pixels: expose(&canvas, self.noise, &mut rng) })
    }
}
