//! The camera that looks at the world, and the light.

use ebm_seed::Rng;
use rand::Rng as _;

use super::actor::velocity;
use super::affine::Affine;
use super::config::VideoConfig;
use super::motion::{Drift, run};
use crate::drawing::layer::Canvas;
use crate::drawing::primitive::Point;
use crate::drawing::texture::mix;

/// The camera sees a part of the world's canvas: it pans, zooms and rolls. Targets are placed in what it
/// sees, so that only what stands still in the world moves with it.
#[derive(Clone, Debug)]
pub(super) struct Camera {
    /// The world's place in the middle of each frame.
    places: Vec<Point>,
    zoom: Drift,
    roll: Drift,
    middle: Point,
}

/// The most that the camera zooms, as a logarithm, and rolls, in radians.
const MOST_ZOOM: f32 = 0.15;
const MOST_ROLL: f32 = 0.1;

impl Camera {
    /// Columns and rows of a world that has something everywhere the camera looks: half a frame's diagonal,
    /// zoomed out, around all places of the camera.
    pub(super) fn world(config: &VideoConfig) -> (usize, usize) {
        let (width, height) = (config.width as f32, config.height as f32);
        let seen = width.hypot(height) * MOST_ZOOM.exp();
        let side = |frame: f32| (seen.min(1.35 * frame) + 2.0 * config.camera * frame) as usize + 2;
        (side(width), side(height))
    }

    pub(super) fn draw(config: &VideoConfig, rng: &mut Rng) -> Self {
        let (width, height) = Self::world(config);
        let frame = [config.width as f32, config.height as f32];
        let share = rng.random_range(0.0f32..=1.0);
        let reach = frame.map(|side| share * config.camera * side);
        let speed = share * rng.random_range(0.2..=1.0) * config.speed.end();
        Self {
            places: run([0.5 * width as f32, 0.5 * height as f32], reach, config.frames, speed, rng),
            zoom: Drift::draw(share * (0.5 * config.camera).min(MOST_ZOOM), rng),
            roll: Drift::draw(share * (0.3 * config.camera).min(MOST_ROLL), rng),
            middle: frame.map(|side| 0.5 * side),
        }
    }

    /// From a frame's pixels to the world's.
    pub(super) fn to_world(&self, frame: usize) -> Affine {
        let (t, [x, y]) = (frame as f32, self.middle);
        let back = Affine::new([-x, -y], 1.0, 0.0, 0.0, 0.0);
        back.then(&Affine::new(self.places[frame], (-self.zoom.at(t)).exp(), self.roll.at(t), 0.0, 0.0))
    }

    /// The world in a frame, smeared along the way the camera goes in `shutter` frames.
    pub(super) fn see(
        &self,
        world: &Canvas,
        frame: usize,
        shutter: f32,
        width: usize,
        height: usize,
    ) -> Canvas {
        let map = self.to_world(frame);
        let way = velocity(&self.places, frame).map(|pixels| shutter * pixels);
        let samples = (way[0].hypot(way[1]).ceil() as u8).clamp(1, MOST_SAMPLES);
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let p = map.apply([x as f32 + 0.5, y as f32 + 0.5]);
                let mut color = world.at(at(p, way, 0, samples));
                for i in 1..samples {
                    color = mix(color, world.at(at(p, way, i, samples)), 1.0 / f32::from(i + 1));
                }
                pixels.push(color);
            }
        }
        Canvas { width, height, pixels }
    }
}

/// More are no better: neighbouring samples then lie two pixels apart, and the world is smooth there.
const MOST_SAMPLES: u8 = 6;

/// The `i`-th of `samples` places evenly along a way through `p`.
fn at(p: Point, way: Point, i: u8, samples: u8) -> Point {
    let t = (f32::from(i) + 0.5) / f32::from(samples) - 0.5;
    [p[0] + t * way[0], p[1] + t * way[1]]
}

/// Light that changes in strength, colour and direction.
#[derive(Clone, Debug)]
pub(super) struct Light {
    strength: Drift,
    tint: [Drift; 3],
    slope: [Drift; 2],
}

impl Light {
    pub(super) fn draw(config: &VideoConfig, rng: &mut Rng) -> Self {
        let most = config.illumination.ln() * rng.random_range(0.1f32..=1.0);
        Self {
            strength: Drift::draw(most, rng),
            tint: [(); 3].map(|()| Drift::draw(0.2 * most, rng)),
            slope: [(); 2].map(|()| Drift::draw(most, rng)),
        }
    }

    /// Lights a frame.
    pub(super) fn shine(&self, canvas: &mut Canvas, frame: usize) {
        let t = frame as f32;
        let color = [0, 1, 2].map(|c| (self.strength.at(t) + self.tint[c].at(t)).exp());
        let [across, down] = [0, 1].map(|axis| self.slope[axis].at(t));
        let (width, height) = (canvas.width as f32, canvas.height as f32);
        for (y, row) in canvas.pixels.chunks_exact_mut(canvas.width).enumerate() {
            let from_row = down * ((y as f32 + 0.5) / height - 0.5);
            for (x, pixel) in row.iter_mut().enumerate() {
                let factor = (1.0 + from_row + across * ((x as f32 + 0.5) / width - 0.5)).max(0.1);
                *pixel = [0, 1, 2].map(|c| pixel[c] * color[c] * factor);
            }
        }
    }
}
