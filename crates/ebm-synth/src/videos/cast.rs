//! Who plays in a video: the target, what looks like it, and what passes in front of it.

use std::f32::consts::{PI, TAU};
use std::ops::RangeInclusive;

use ebm_seed::{Key, Rng};
use rand::Rng as _;

use super::actor::{Actor, Posture};
use super::camera::Camera;
use super::config::VideoConfig;
use super::look::Look;
use super::motion::run;
use crate::drawing::primitive::{Extent, Point};
use crate::drawing::shape::{Category, Silhouette};
use crate::drawing::texture::Rgb;

/// All that moves, from back to front.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) behind: Vec<Actor>,
    pub(super) target: Actor,
    pub(super) front: Vec<Actor>,
}

/// Attempts to find an admissible part before it is left out.
const ATTEMPTS: usize = 12;
/// In the first frames hardly anything of the target is hidden.
const UNHIDDEN_FRAMES: usize = 3;
const HARDLY_ANYTHING: f32 = 0.02;
/// The most frames in a row that the target may be out of sight.
const MOST_ABSENT: usize = 8;

impl Cast {
    /// `surround` is the colour of the world where the target starts.
    pub(super) fn draw(config: &VideoConfig, camera: &Camera, surround: Rgb, key: Key) -> Self {
        let mut rng = key.split("target").rng();
        let category = any_category(&mut rng);
        let radius = 0.5 * log_uniform(&config.size, &mut rng);
        let look = Look::of_object(category, radius, surround, &mut rng);
        let target = draw_target(config, look, &mut rng);
        let mut cast = Self { behind: Vec::new(), target, front: Vec::new() };
        let mut rng = key.split("counts").rng();
        let distractors = rng.random_range(config.distractors / 2..=config.distractors);
        let occluders = rng.random_range(0..=config.occluders);
        for index in 0..distractors {
            let mut rng = key.split("distractor").index(index as u64).rng();
            cast.add_distractor(config, category, surround, &mut rng);
        }
        for index in 0..occluders {
            let mut rng = key.split("occluder").index(index as u64).rng();
            let mut attempts =
                (0..ATTEMPTS).map(|_| draw_occluder(config, &cast.target, camera, surround, &mut rng));
            if let Some(actor) = attempts.find(|actor| cast.may_add(actor, config)) {
                cast.front.push(actor);
            }
        }
        cast
    }

    /// From back to front.
    pub(super) fn actors(&self) -> impl Iterator<Item = &Actor> {
        self.behind.iter().chain([&self.target]).chain(&self.front)
    }

    fn add_distractor(&mut self, config: &VideoConfig, category: Category, surround: Rgb, rng: &mut Rng) {
        let to_front = rng.random_bool(0.4);
        let look = if rng.random_bool(0.5) {
            self.target.look.similar(category, rng)
        } else {
            let radius = 0.5 * log_uniform(&config.size, rng);
            Look::of_object(any_category(rng), radius, surround, rng)
        };
        for _ in 0..ATTEMPTS {
            let speed = log_uniform(&config.speed, rng);
            let mut places = run_in_frame(config, 0.0, speed, rng);
            if rng.random_bool(0.5) {
                let frame = rng.random_range(config.frames / 6..config.frames);
                let near = self.target.places[frame];
                let apart = rng.random_range(0.4..=1.2) * (look.radius + self.target.look.radius);
                let meeting = beside(near, apart, rng);
                let [dx, dy] = [0, 1].map(|axis| meeting[axis] - places[frame][axis]);
                places.iter_mut().for_each(|place| *place = [place[0] + dx, place[1] + dy]);
            }
            let actor = Actor { look: look.clone(), posture: Posture::draw(config, rng), places };
            let [dx, dy] = [0, 1].map(|axis| actor.places[0][axis] - self.target.places[0][axis]);
            let apart = dx.hypot(dy) > actor.look.radius + self.target.look.radius;
            if apart && !to_front {
                self.behind.push(actor);
                return;
            }
            if apart && self.may_add(&actor, config) {
                self.front.push(actor);
                return;
            }
        }
    }

    /// Whether enough of the target can be seen with this in front of it as well.
    fn may_add(&self, actor: &Actor, config: &VideoConfig) -> bool {
        (0..config.frames).all(|frame| {
            let hidden = self.target.hidden_behind(self.front.iter().chain([actor]), frame);
            hidden <= if frame < UNHIDDEN_FRAMES { HARDLY_ANYTHING } else { config.max_occlusion }
        })
    }
}

fn any_category(rng: &mut Rng) -> Category {
    Category::ALL[rng.random_range(0..Category::ALL.len())]
}

fn log_uniform(range: &RangeInclusive<f32>, rng: &mut Rng) -> f32 {
    rng.random_range(range.start().ln()..=range.end().ln()).exp()
}

fn beside([x, y]: Point, apart: f32, rng: &mut Rng) -> Point {
    let (sin, cos) = rng.random_range(0.0..=TAU).sin_cos();
    [x + apart * cos, y + apart * sin]
}

/// A run through a part of the frame that keeps `margin` from its sides.
fn run_in_frame(config: &VideoConfig, margin: f32, speed: f32, rng: &mut Rng) -> Vec<Point> {
    let sides = [config.width as f32, config.height as f32];
    let reach = sides.map(|side| rng.random_range(0.25..=1.0) * (0.5 * side - margin));
    let center = [0, 1].map(|axis| {
        let room = margin + reach[axis];
        rng.random_range(room..=(sides[axis] - room).max(room))
    });
    run(center, reach, config.frames, speed, rng)
}

/// The target, wholly inside the first frame.
fn draw_target(config: &VideoConfig, look: Look, rng: &mut Rng) -> Actor {
    let leaves = rng.random_bool(f64::from(config.absence));
    // What leaves needs most of its speed for that.
    let share = if leaves { 0.3 } else { 1.0 };
    let speed = share * log_uniform(&config.speed, rng);
    let places = run_in_frame(config, 0.9 * look.radius, speed, rng);
    let mut target = Actor { look, posture: Posture::draw(config, rng), places };
    let [x0, y0, x1, y1] = target.extent(0);
    let inward =
        |low: f32, high: f32, side: usize| (1.0 - low).max(0.0) + (side as f32 - 1.0 - high).min(0.0);
    let [dx, dy] = [inward(x0, x1, config.width), inward(y0, y1, config.height)];
    target.places.iter_mut().for_each(|place| *place = [place[0] + dx, place[1] + dy]);
    if leaves {
        let mut attempts =
            (0..ATTEMPTS).map(|_| leave(config, &target, (1.0 - share) * config.speed.end(), rng));
        if let Some(places) = attempts.find_map(|places| places) {
            target.places = places;
        }
    }
    target
}

/// The target's places with an excursion beyond a side of the frame at `speed` at most, if there is time for
/// it.
fn leave(config: &VideoConfig, target: &Actor, speed: f32, rng: &mut Rng) -> Option<Vec<Point>> {
    let frames = config.frames;
    let turn = rng.random_range(frames / 3..frames);
    let [x0, y0, x1, y1] = target.extent(turn);
    let (width, height) = (config.width as f32, config.height as f32);
    let ways = [(x1, [-1.0, 0.0]), (width - x0, [1.0, 0.0]), (y1, [0.0, -1.0]), (height - y0, [0.0, 1.0])];
    let (distance, direction) = ways[rng.random_range(0..ways.len())];
    // Beyond the side by a little, so that it stays there for a few frames only.
    let distance = distance + rng.random_range(1.0f32..=4.0);
    // The excursion d (1 + cos(2π t / T)) / 2 is fastest with d π / T.
    let duration = PI * distance / speed;
    let excursion = |frame: usize| {
        let t = (frame as f32 - turn as f32) / duration;
        if t.abs() < 0.5 { 0.5 * distance * (1.0 + (TAU * t).cos()) } else { 0.0 }
    };
    let moved =
        |(frame, place): (usize, &Point)| [0, 1].map(|axis| place[axis] + excursion(frame) * direction[axis]);
    let moved = Actor { places: target.places.iter().enumerate().map(moved).collect(), ..target.clone() };
    let absent = (0..frames).filter(|&frame| !in_sight(moved.extent(frame), config)).count();
    (excursion(0) == 0.0 && (1..=MOST_ABSENT).contains(&absent)).then_some(moved.places)
}

/// Whether any of an extent lies in the frame.
pub(super) fn in_sight([x0, y0, x1, y1]: Extent, config: &VideoConfig) -> bool {
    x1 > 0.0 && y1 > 0.0 && x0 < config.width as f32 && y0 < config.height as f32
}

/// A strip or a patch that meets the target in some frame: one that stands in the world, or one that passes.
fn draw_occluder(
    config: &VideoConfig,
    target: &Actor,
    camera: &Camera,
    surround: Rgb,
    rng: &mut Rng,
) -> Actor {
    let radius = target.look.radius;
    let (figure, scale) = if rng.random_bool(0.55) {
        let half_width = (radius * rng.random_range(0.12..=0.45)).max(2.0);
        let length = config.height as f32 * rng.random_range(0.4..=1.1);
        (Silhouette::strip(length, half_width, rng), half_width)
    } else {
        let scale = radius * rng.random_range(0.5..=1.1);
        (Silhouette::patch(scale, rng), scale)
    };
    let look = Look::of_occluder(figure, scale, surround, rng);
    let meeting = rng.random_range(config.frames / 6..config.frames);
    let apart = rng.random_range(0.0..=0.9) * radius;
    let place = beside(target.places[meeting], apart, rng);
    let places = if rng.random_bool(0.4) {
        let fixed = camera.to_world(meeting).apply(place);
        (0..config.frames).map(|frame| camera.to_world(frame).inverse().apply(fixed)).collect()
    } else {
        let speed = rng.random_range(0.2..=0.8) * config.speed.end();
        let step = beside([0.0; 2], speed, rng);
        let past = |frame: usize| frame as f32 - meeting as f32;
        (0..config.frames).map(|frame| [0, 1].map(|axis| place[axis] + past(frame) * step[axis])).collect()
    };
    Actor { look, posture: Posture::still(rng), places }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::videos::actor::velocity;

    #[test]
    fn targets_keep_to_their_speed_and_some_leave() {
        let config = VideoConfig { absence: 0.5, speed: 1.0..=6.0, ..VideoConfig::default() };
        let (mut fastest, mut away) = (0.0f32, 0);
        for index in 0..60 {
            let camera = Camera::draw(&config, &mut Key::new(1).index(index).rng());
            let cast = Cast::draw(&config, &camera, [0.2; 3], Key::new(2).index(index));
            let target = &cast.target;
            for pair in target.places.windows(2) {
                let step = (pair[1][0] - pair[0][0]).hypot(pair[1][1] - pair[0][1]);
                assert!(step <= 6.0 * 1.001, "{step}");
                fastest = fastest.max(step);
            }
            let [vx, vy] = velocity(&target.places, 7);
            let [[x0, y0], [x1, y1]] = [target.places[6], target.places[8]];
            assert_eq!([vx, vy], [0.5 * (x1 - x0), 0.5 * (y1 - y0)]);
            away += usize::from((0..config.frames).any(|frame| !in_sight(target.extent(frame), &config)));
        }
        assert!(fastest > 4.0 && (5..50).contains(&away), "{fastest} {away}");
    }

    #[test]
    fn what_stands_in_the_world_stands_still() {
        let config = VideoConfig::default();
        let camera = Camera::draw(&config, &mut Key::new(3).rng());
        let mut rng = Key::new(4).rng();
        let look = Look::of_object(Category::Mug, 15.0, [0.2; 3], &mut rng);
        let target = draw_target(&config, look, &mut rng);
        let mut standing = 0;
        for _ in 0..40 {
            let actor = draw_occluder(&config, &target, &camera, [0.2; 3], &mut rng);
            let places = actor.places.iter().enumerate();
            let world: Vec<Point> =
                places.map(|(frame, &place)| camera.to_world(frame).apply(place)).collect();
            let still = world.iter().all(|p| (p[0] - world[0][0]).hypot(p[1] - world[0][1]) < 0.01);
            standing += usize::from(still);
            // All meet the target: within 0.9 of its radius in some frame.
            let apart = |frame: usize| {
                let [[x, y], [u, v]] = [actor.places[frame], target.places[frame]];
                (x - u).hypot(y - v)
            };
            let nearest = (0..config.frames).map(apart).fold(f32::INFINITY, f32::min);
            assert!(nearest <= 0.9 * 15.0 + 0.01, "{nearest}");
        }
        assert!((8..=26).contains(&standing), "{standing}");
    }
}
