//! What moves through a video.

use std::f32::consts::PI;

use ebm_seed::Rng;
use rand::Rng as _;

use super::affine::Affine;
use super::config::VideoConfig;
use super::look::Look;
use super::motion::Drift;
use crate::drawing::layer::Blur;
use crate::drawing::primitive::{Extent, Point};

/// How an object's size, proportions and direction change.
#[derive(Clone, Debug)]
pub(super) struct Posture {
    scale: Drift,
    aspect: Drift,
    /// The direction in which the figure is stretched, in radians of its own coordinates.
    axis: f32,
    angle: Drift,
    start: f32,
}

impl Posture {
    pub(super) fn draw(config: &VideoConfig, rng: &mut Rng) -> Self {
        // Stretched by e^a along the axis and by e^-a across, the aspect ratio changes by e^2a.
        let aspect = 0.5 * config.aspect_change.ln() * rng.random_range(0.4..=1.0);
        Self {
            scale: Drift::draw(config.scale_change.ln() * rng.random_range(0.4..=1.0), rng),
            aspect: Drift::draw(aspect, rng),
            axis: rng.random_range(0.0..=PI),
            angle: Drift::draw(config.rotation.to_radians() * rng.random_range(0.0..=1.0), rng),
            start: rng.random_range(-0.5..=0.5),
        }
    }

    /// One that does not change.
    pub(super) fn still(rng: &mut Rng) -> Self {
        let [scale, aspect, angle] = [(); 3].map(|()| Drift::draw(0.0, rng));
        Self { scale, aspect, axis: 0.0, angle, start: 0.0 }
    }

    /// From the figure's coordinates to those of `place`.
    fn at(&self, frame: f32, place: Point) -> Affine {
        let angle = self.start + self.angle.at(frame);
        Affine::new(place, self.scale.at(frame).exp(), angle, self.aspect.at(frame), self.axis)
    }
}

/// An object: its look, and where it is in each frame.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) look: Look,
    pub(super) posture: Posture,
    /// In pixels of the frame.
    pub(super) places: Vec<Point>,
}

impl Actor {
    /// From the figure's coordinates to the pixels of a frame.
    pub(super) fn map(&self, frame: usize) -> Affine {
        self.posture.at(frame as f32, self.places[frame])
    }

    /// The smallest upright rectangle around the whole figure, in pixels.
    pub(super) fn extent(&self, frame: usize) -> Extent {
        self.map(frame).extent(&self.look.figure)
    }

    /// What an open shutter makes of it: a smear along the way it goes in `shutter` frames.
    pub(super) fn blur(&self, frame: usize, shutter: f32) -> Blur {
        let [dx, dy] = velocity(&self.places, frame);
        Blur::Motion([shutter * dx, shutter * dy])
    }

    /// The fraction of this figure that lies behind any of `front`, from a grid of points on it.
    pub(super) fn hidden_behind<'a>(&self, front: impl IntoIterator<Item = &'a Self>, frame: usize) -> f32 {
        let maps: Vec<_> = front.into_iter().map(|actor| (actor, actor.map(frame).inverse())).collect();
        if maps.is_empty() {
            return 0.0;
        }
        let (map, figure) = (self.map(frame), &self.look.figure);
        let [x0, y0, x1, y1] = figure.extent();
        let (mut hidden, mut total) = (0.0, 0.0);
        for index in 0..GRID * GRID {
            let at = |i: u16| (f32::from(i) + 0.5) / f32::from(GRID);
            let p = [x0 + at(index % GRID) * (x1 - x0), y0 + at(index / GRID) * (y1 - y0)];
            if figure.distance(p) < 0.0 {
                total += 1.0;
                let p = map.apply(p);
                let behind =
                    |(actor, inverse): &(&Self, Affine)| actor.look.figure.distance(inverse.apply(p)) < 0.0;
                hidden += f32::from(u8::from(maps.iter().any(behind)));
            }
        }
        if total > 0.0 { hidden / total } else { 0.0 }
    }
}

/// Points per side of the grid on which occlusion is measured.
const GRID: u16 = 14;

/// Pixels per frame, from the frame before to the one after.
pub(super) fn velocity(places: &[Point], frame: usize) -> Point {
    let (before, after) = (frame.saturating_sub(1), (frame + 1).min(places.len() - 1));
    let span = (after - before).max(1) as f32;
    [0, 1].map(|axis| (places[after][axis] - places[before][axis]) / span)
}
