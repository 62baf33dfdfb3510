//! Calibration of the bands of a box's edges on annotated videos, and their coverage.

use ebm_data::rect::overlap;
use ebm_data::sequences::{Rect, Sequence};
use ebm_experiment::{edge_distances, edges_of};
use ebm_train::Progress;
use serde::Serialize;

use crate::box_module::BoxModule;
use crate::localize::State;
use crate::saved::DensityConfig;
use crate::tracker::{BoxDensity, TargetTracker};
use crate::trained::Tracker;
use crate::{Error, Result};

/// Overlap above which a target counts as followed.
const FOLLOWED: f64 = 0.5;

/// Candidates for the temperature of p(y|x). The first is chosen whose bands are nearly as narrow as the narrowest.
const TEMPERATURES: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Largest ratio of widths that counts as nearly: it leaves p(y|x) as it was trained unless bands gain from another.
const NARROW: f64 = 1.02;

/// Least number of followed frames for a calibration.
const LEAST_FRAMES: usize = 9;

/// Coverage of the annotated edges of one sequence by the bands, and widths of the bands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BandCoverage {
    /// Name of the sequence.
    pub sequence: String,
    /// Number of frames with bands and an annotation.
    pub frames: usize,
    /// Fraction of these frames in which the target was followed, with an overlap above 0.5.
    pub followed: f64,
    /// Fraction of all frames in which the band of the left, top, right and bottom edge contains the annotated edge.
    pub held: [f64; 4],
    /// Fraction of the followed frames in which each band contains the annotated edge; 0 without such frames.
    pub held_followed: [f64; 4],
    /// Mean widths of the bands, in widths and heights of the boxes.
    pub widths: [f64; 4],
}

impl BandCoverage {
    /// Summarises frames. Of each, `frames` has whether it was followed, and for each edge whether the band holds it and
    /// the width of the band.
    fn of(sequence: &str, frames: impl Iterator<Item = (bool, [(bool, f64); 4])>) -> Self {
        let (mut sums, mut followed_frames) =
            (Self { sequence: sequence.to_owned(), ..Self::default() }, 0.0);
        for (followed, edges) in frames {
            let followed = f64::from(u8::from(followed));
            sums.frames += 1;
            followed_frames += followed;
            for (place, (held, width)) in edges.into_iter().enumerate() {
                let held = f64::from(u8::from(held));
                sums.held[place] += held;
                sums.held_followed[place] += held * followed;
                sums.widths[place] += width;
            }
        }
        let frames = sums.frames.max(1) as f64;
        let [held, widths] = [sums.held, sums.widths].map(|sums| sums.map(|sum| sum / frames));
        let held_followed = sums.held_followed.map(|sum| sum / followed_frames.max(1.0));
        Self { followed: followed_frames / frames, held, held_followed, widths, ..sums }
    }
}

/// Calls `each` with the target's tracker and the annotated box, for every frame of `sequence` in which `tracker` found
/// its target and the annotation is valid.
fn for_each_found(
    tracker: &Tracker,
    sequence: &Sequence,
    each: &mut dyn FnMut(&TargetTracker<BoxModule>, Rect) -> Result<()>,
) -> Result<()> {
    tracker.track_sequence(sequence, &mut |frame, _, tracked, target| match sequence.boxes.get(frame) {
        Some(truth) if tracked.state != State::NotFound && sequence.is_valid(frame) => each(target, *truth),
        _ => Ok(()),
    })?;
    Ok(())
}

/// Returns the results of `each` sequence, with their progress.
fn by_sequence<T>(
    sequences: &[Sequence],
    progress: &mut dyn Progress,
    mut each: impl FnMut(&Sequence) -> Result<T>,
) -> Result<Vec<T>> {
    progress.begin("tracking, for bands", sequences.len());
    let mut found = Vec::new();
    for (number, sequence) in (1..).zip(sequences) {
        found.push(each(sequence)?);
        progress.advance(number, &sequence.name);
    }
    progress.end();
    Ok(found)
}

/// Frame of a calibration.
struct Frame {
    followed: bool,
    /// [`edge_distances`] at each of the [`TEMPERATURES`].
    edges: [[(f64, f64); 4]; TEMPERATURES.len()],
}

/// Bands of a temperature.
#[derive(Clone, Copy)]
struct Bands {
    /// Place of the temperature in [`TEMPERATURES`].
    at: usize,
    factors: [f64; 4],
}

impl Bands {
    /// Chooses the factors at which the bands hold each edge in 90 % of the followed frames, in the mean over
    /// `sequences`, and the temperature. Also returns the mean over sequences of the four widths together, for each
    /// temperature. Returns `None` for too few followed frames.
    fn choose(sequences: &[&[Frame]]) -> Option<(Self, [f64; TEMPERATURES.len()])> {
        let counts = sequences.iter().map(|frames| frames.iter().filter(|frame| frame.followed).count());
        let counts: Vec<usize> = counts.collect();
        let used = counts.iter().filter(|&&count| count > 0).count() as f64;
        let all: usize = counts.iter().sum();
        if all < LEAST_FRAMES {
            return None;
        }
        // The correction of split conformal prediction for few frames.
        let level = BoxDensity::LEVEL * (all + 1) as f64 / all as f64;
        let bands: [_; TEMPERATURES.len()] = std::array::from_fn(|at| {
            let (mut factors, mut width) = ([0.0; 4], 0.0);
            for (place, factor) in factors.iter_mut().enumerate() {
                let (mut found, mut scale) = (Vec::new(), 0.0);
                for (frames, &count) in sequences.iter().zip(&counts) {
                    // Every sequence has the same weight, whatever its length.
                    let weight = 1.0 / (used * count as f64);
                    for frame in frames.iter().filter(|frame| frame.followed) {
                        let (distance, half) = frame.edges[at][place];
                        found.push((distance, weight));
                        scale += weight * half;
                    }
                }
                *factor = weighted_quantile(found, level);
                width += 2.0 * *factor * scale;
            }
            (width, Self { at, factors })
        });
        let widths = bands.map(|(width, _)| width);
        let least = widths.into_iter().fold(f64::INFINITY, f64::min);
        let (_, chosen) = bands.into_iter().find(|(width, _)| *width <= NARROW * least)?;
        Some((chosen, widths))
    }

    fn coverage(&self, sequence: &str, frames: &[Frame]) -> BandCoverage {
        let edges = frames.iter().map(|frame| {
            let edges = frame.edges[self.at];
            let held = |place: usize| {
                let ((distance, half), factor) = (edges[place], self.factors[place]);
                (distance <= factor, 2.0 * factor * half)
            };
            (frame.followed, [0, 1, 2, 3].map(held))
        });
        BandCoverage::of(sequence, edges)
    }
}

/// Returns the smallest value up to which the values have at least the share `level` of the weight, whose sum is 1.
fn weighted_quantile(mut values: Vec<(f64, f64)>, level: f64) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    let reached = |(_, weight): &&(f64, f64)| {
        sum += weight;
        // Rounding may leave a sum just below the level.
        sum >= level - 1e-9
    };
    values.iter().find(reached).or(values.last()).map_or(0.0, |(value, _)| *value)
}

/// Result of [`calibrate_bands`].
#[derive(Clone, Debug, PartialEq)]
pub struct BandCalibration {
    /// Chosen temperature and factors of the bands.
    pub density: DensityConfig,
    /// Coverage of each sequence by bands that were calibrated on all other sequences; empty for a single sequence.
    pub left_out: Vec<BandCoverage>,
}

/// Calibrates the bands of `tracker` on the frames of `sequences` in which it follows the target. The band of each edge
/// then contains the annotated edge in 90 % of these frames, in the mean over the sequences. Neighbouring frames of a
/// video are alike, so a few sequences promise little for others:
/// [`left_out`](BandCalibration::left_out) shows how much.
///
/// # Errors
/// [`Error::Config`] when f was not trained as a density; when too few frames are followed; when a sequence cannot be
/// tracked.
pub fn calibrate_bands(
    tracker: &Tracker,
    sequences: &[Sequence],
    num_samples: usize,
    progress: &mut dyn Progress,
) -> Result<BandCalibration> {
    let Some(density) = &tracker.networks.density else {
        let reason = "its f was not trained as a density, so it has no bands; give an energy model";
        return Err(Error::config("of the tracker", reason));
    };
    let at = |temperature| DensityConfig { temperature, factors: None, ..density.clone() };
    let configs = TEMPERATURES.map(at);
    let found = by_sequence(sequences, progress, |sequence| {
        let mut frames = Vec::new();
        for_each_found(tracker, sequence, &mut |target, truth| {
            let bbox = target.bbox();
            let mut edges = [[(0.0, 0.0); 4]; TEMPERATURES.len()];
            for (edges, config) in edges.iter_mut().zip(&configs) {
                let Some(density) = target.density_with(config, num_samples)? else { return Ok(()) };
                match density.edge_regions(BoxDensity::LEVEL) {
                    Err(Error::Core(ebm_core::Error::NoSpread { .. })) => return Ok(()),
                    regions => *edges = edge_distances(&regions?, bbox, truth),
                }
            }
            frames.push(Frame { followed: overlap(&bbox, &truth) > FOLLOWED, edges });
            Ok(())
        })?;
        Ok(frames)
    })?;
    let all: Vec<&[Frame]> = found.iter().map(Vec::as_slice).collect();
    let Some((bands, widths)) = Bands::choose(&all) else {
        let reason =
            format!("the target is followed in fewer than {LEAST_FRAMES} frames; give more sequences");
        return Err(Error::config("of the bands", reason));
    };
    for (temperature, width) in TEMPERATURES.iter().zip(widths) {
        progress
            .message(&format!("temperature {temperature}: the four bands together {width:.3} sides wide"));
    }
    let mut left_out = Vec::new();
    for (place, sequence) in sequences.iter().enumerate() {
        let others: Vec<&[Frame]> =
            all.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, frames)| *frames).collect();
        if let Some((bands, _)) = Bands::choose(&others) {
            left_out.push(bands.coverage(&sequence.name, all[place]));
        }
    }
    let density = DensityConfig { factors: Some(bands.factors), ..configs[bands.at].clone() };
    Ok(BandCalibration { density, left_out })
}

/// Measures the coverage of the annotated edges of each of the `sequences` by the bands of `tracker`.
///
/// # Errors
/// When a sequence cannot be tracked.
pub fn band_coverage(
    tracker: &Tracker,
    sequences: &[Sequence],
    num_samples: usize,
    progress: &mut dyn Progress,
) -> Result<Vec<BandCoverage>> {
    by_sequence(sequences, progress, |sequence| {
        let mut frames = Vec::new();
        for_each_found(tracker, sequence, &mut |target, truth| {
            let Some(density) = target.density(num_samples)? else { return Ok(()) };
            let bands = match density.bands() {
                Err(Error::Core(ebm_core::Error::NoSpread { .. })) => return Ok(()),
                bands => bands?,
            };
            let (bbox, edges) = (target.bbox(), edges_of(truth));
            let band = |place: usize| {
                (bands[place].contains(edges[place]), bands[place].width() / bbox[2 + place % 2])
            };
            frames.push((overlap(&bbox, &truth) > FOLLOWED, [0, 1, 2, 3].map(band)));
            Ok(())
        })?;
        Ok(BandCoverage::of(&sequence.name, frames.into_iter()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames whose edges are `distances` from the box, at every temperature, with half intervals of `half` sides at the
    /// first and of 1 at the others.
    fn frames(distances: &[f64], half: f64) -> Vec<Frame> {
        let of = |&distance: &f64| {
            let mut edges = [[(distance, 1.0); 4]; TEMPERATURES.len()];
            edges[0] = [(distance, half); 4];
            Frame { followed: true, edges }
        };
        distances.iter().map(of).collect()
    }

    #[test]
    fn sequences_count_alike_whatever_their_length() {
        // 1, 2, … 10 in one sequence, and 90 frames of 1 in another: half of the weight each. 90 % of 101 / 100 is
        // reached where the first has 90 %.
        let (few, many) =
            (frames(&(1..=10).map(f64::from).collect::<Vec<_>>(), 0.5), frames(&[1.0; 90], 0.5));
        let (bands, widths) = Bands::choose(&[&few, &many]).unwrap();
        assert_eq!((bands.at, bands.factors), (0, [9.0; 4]));
        assert!(
            (widths[0] - 4.0 * 2.0 * 9.0 * 0.5).abs() < 1e-9 && (widths[1] - 72.0).abs() < 1e-9,
            "{widths:?}"
        );
        let found = bands.coverage("few", &few);
        assert_eq!((found.frames, found.held_followed, found.widths), (10, [0.9; 4], [9.0; 4]));
    }

    #[test]
    fn what_is_not_followed_is_not_calibrated_on() {
        let mut frames = frames(&[1.0; 9], 2.0);
        let far = Frame { followed: false, edges: [[(9.0, 1.0); 4]; TEMPERATURES.len()] };
        frames.push(far);
        let (bands, _) = Bands::choose(&[&frames, &[]]).unwrap();
        // Bands at other temperatures are half as wide.
        assert_eq!((bands.at, bands.factors), (1, [1.0; 4]));
        let found = bands.coverage("all", &frames);
        assert_eq!((found.followed, found.held, found.held_followed), (0.9, [0.9; 4], [1.0; 4]));
        assert!(Bands::choose(&[&frames[..8]]).is_none() && Bands::choose(&[]).is_none());
    }
}
