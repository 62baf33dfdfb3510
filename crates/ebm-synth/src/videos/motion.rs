//! Smooth random motion.

use std::f32::consts::TAU;
use std::ops::RangeInclusive;

use ebm_seed::Rng;
use rand::Rng as _;

use crate::drawing::noise::smooth;
use crate::drawing::primitive::Point;

/// A sum of three sines: smooth, and in -1..=1.
#[derive(Clone, Debug)]
pub(super) struct Wave {
    terms: [Sine; 3],
}

#[derive(Clone, Copy, Debug)]
struct Sine {
    amplitude: f32,
    frequency: f32,
    phase: f32,
}

impl Wave {
    /// Periods are uniform in their logarithm.
    pub(super) fn draw(periods: RangeInclusive<f32>, rng: &mut Rng) -> Self {
        let (shortest, longest) = (periods.start().ln(), periods.end().ln());
        let mut terms = [(); 3].map(|()| Sine {
            amplitude: rng.random_range(0.2..=1.0),
            frequency: TAU / rng.random_range(shortest..=longest).exp(),
            phase: rng.random_range(0.0..=TAU),
        });
        let total: f32 = terms.iter().map(|term| term.amplitude).sum();
        terms.iter_mut().for_each(|term| term.amplitude /= total);
        Self { terms }
    }

    pub(super) fn at(&self, t: f32) -> f32 {
        self.terms.iter().map(|term| term.amplitude * (term.frequency * t + term.phase).sin()).sum()
    }

    /// The derivative.
    fn slope(&self, t: f32) -> f32 {
        let terms = self.terms.iter();
        terms.map(|s| s.amplitude * s.frequency * (s.frequency * t + s.phase).cos()).sum()
    }
}

/// A number that starts at 0 in frame 0 and drifts by up to `most` either way.
#[derive(Clone, Debug)]
pub(super) struct Drift {
    wave: Wave,
    most: f32,
}

impl Drift {
    /// A drift with periods of 40 to 160 frames.
    pub(super) fn draw(most: f32, rng: &mut Rng) -> Self {
        Self { wave: Wave::draw(40.0..=160.0, rng), most }
    }

    pub(super) fn at(&self, frame: f32) -> f32 {
        // From -2 to 2, but mostly near 0: what is large is drawn in, so that what is common need not be
        // small.
        let difference = self.wave.at(frame) - self.wave.at(0.0);
        self.most * difference / (1.0 + 0.5 * difference.abs())
    }
}

/// The places, frame by frame, of something that runs along a random curve within `reach` of `center`:
/// sometimes it is nearly at rest, never does it move more than `speed` pixels from a frame to the next.
pub(super) fn run(center: Point, reach: Point, frames: usize, speed: f32, rng: &mut Rng) -> Vec<Point> {
    // The curve's parameter has no unit; what matters is that its turns are gentle against the reach.
    let curve = [(); 2].map(|()| Wave::draw(1.0..=3.0, rng));
    let pace = Wave::draw(14.0..=60.0, rng);
    let place = |t: f32| [0, 1].map(|axis| center[axis] + reach[axis] * curve[axis].at(t));
    let mut t = 0.0;
    let mut places = Vec::with_capacity(frames);
    for frame in 0..frames {
        places.push(place(t));
        let step = speed * (0.1 + 0.9 * smooth(0.5 + 0.5 * pace.at(frame as f32)));
        for _ in 0..SUBSTEPS {
            let [dx, dy] = [0, 1].map(|axis| reach[axis] * curve[axis].slope(t));
            t += (step / f32::from(SUBSTEPS) / dx.hypot(dy).max(1e-3)).min(LARGEST_STEP);
        }
        // Where the curve turns sharply the sum of the tangents' steps may exceed the arc.
        let [x, y] = place(t);
        let [x0, y0] = places[frame];
        let moved = (x - x0).hypot(y - y0);
        if moved > speed {
            t = shortened(t, speed, &place, [x0, y0]);
        }
    }
    places
}

/// Steps of the integration per frame.
const SUBSTEPS: u8 = 8;
/// In the curve's parameter: passes a cusp, where the tangent vanishes, in a few frames.
const LARGEST_STEP: f32 = 0.01;

/// The largest of a few parameters before `t` whose place is at most `speed` from `from`.
fn shortened(t: f32, speed: f32, place: &impl Fn(f32) -> Point, from: Point) -> f32 {
    let span = LARGEST_STEP * f32::from(SUBSTEPS);
    let near = |&t: &f32| {
        let [x, y] = place(t);
        (x - from[0]).hypot(y - from[1]) <= speed
    };
    (0u8..=64).map(|i| t - span * f32::from(i) / 64.0).find(near).unwrap_or(t - span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_seed::Key;

    #[test]
    fn a_wave_stays_within_one_and_its_slope_is_its_derivative() {
        let wave = Wave::draw(3.0..=20.0, &mut Key::new(1).rng());
        for i in 0..500 {
            let t = 0.2 * i as f32;
            assert!(wave.at(t).abs() <= 1.0);
            let difference = (wave.at(t + 0.05) - wave.at(t - 0.05)) / 0.1;
            assert!((difference - wave.slope(t)).abs() < 0.02, "{t}");
        }
    }

    #[test]
    fn a_drift_starts_at_zero_and_stays_within_its_bound() {
        for seed in 0..20 {
            let drift = Drift::draw(0.7, &mut Key::new(seed).rng());
            assert_eq!(drift.at(0.0), 0.0);
            let most = (0..400).map(|frame| drift.at(frame as f32).abs()).fold(0.0, f32::max);
            assert!(most <= 0.7 && most > 0.1, "{most}");
        }
    }

    #[test]
    fn a_run_keeps_its_place_and_its_speed() {
        let mut fastest = 0.0f32;
        for seed in 0..200 {
            let speed = 0.5 + 0.1 * seed as f32;
            let places = run([100.0, 50.0], [80.0, 40.0], 200, speed, &mut Key::new(seed).rng());
            for pair in places.windows(2) {
                let step = (pair[1][0] - pair[0][0]).hypot(pair[1][1] - pair[0][1]);
                assert!(step <= speed * 1.001, "{step} in one frame, {speed} allowed, seed {seed}");
                fastest = fastest.max(step / speed);
            }
            assert!(places.iter().all(|p| (p[0] - 100.0).abs() <= 80.01 && (p[1] - 50.0).abs() <= 40.01));
        }
        assert!(fastest > 0.9);
    }
}
