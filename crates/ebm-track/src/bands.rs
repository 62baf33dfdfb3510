//! Calibration of the bands of a box's edges on annotated videos, and their coverage.

use ebm_data::rect::overlap;
use ebm_data::sequences::{Rect, Sequence};
use ebm_experiment::{EdgeIntervals, edges_of};
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

/// Candidates for the temperature of p(y|x). The one with the narrowest bands is chosen.
const TEMPERATURES: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

/// Coverage of the annotated edges by the bands, and widths of the bands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BandCoverage {
    /// Number of frames with bands and an annotation.
    pub frames: usize,
    /// Fraction of these frames in which the target was followed, with an overlap above 0.5.
    pub followed: f64,
    /// Fraction of all frames in which the band of the left, top, right and bottom edge contains the annotated edge.
    pub held: [f64; 4],
    /// Fraction of the followed frames in which each band contains the annotated edge.
    pub held_followed: [f64; 4],
    /// Mean widths of the bands, in widths and heights of the boxes.
    pub widths: [f64; 4],
}

/// Calls `each` with the target's tracker and the annotated box, for every frame of `sequences` in which `tracker`
/// found its target and the annotation is valid.
fn for_each_found(
    tracker: &Tracker,
    sequences: &[Sequence],
    progress: &mut dyn Progress,
    each: &mut dyn FnMut(&TargetTracker<'_, BoxModule>, Rect) -> Result<()>,
) -> Result<()> {
    progress.begin("tracking, for bands", sequences.len());
    for (number, sequence) in (1..).zip(sequences) {
        tracker.track_sequence(
            sequence,
            &mut |frame, _, tracked, target| match sequence.boxes.get(frame) {
                Some(truth) if tracked.state != State::NotFound && sequence.is_valid(frame) => {
                    each(target, *truth)
                }
                _ => Ok(()),
            },
        )?;
        progress.advance(number, &sequence.name);
    }
    progress.end();
    Ok(())
}

/// Calibrates the bands of `tracker` on the frames of `sequences` in which it follows the target. The band of each edge
/// then contains 90 % of the annotated edges. Returns the temperature with the narrowest bands, and the factors of the
/// bands. Neighbouring frames of a video are alike, so frames give a weaker guarantee than independent images.
///
/// # Errors
/// [`Error::Config`] when f was not trained as a density; when too few frames are followed; when a sequence cannot be
/// tracked.
pub fn calibrate_bands(
    tracker: &Tracker,
    sequences: &[Sequence],
    num_samples: usize,
    progress: &mut dyn Progress,
) -> Result<DensityConfig> {
    let Some(density) = &tracker.networks.density else {
        let reason = "its f was not trained as a density, so it has no bands; give an energy model";
        return Err(Error::config("of the tracker", reason));
    };
    let at = |temperature| DensityConfig { temperature, factors: None, ..density.clone() };
    let configs = TEMPERATURES.map(at);
    let mut found: [EdgeIntervals; TEMPERATURES.len()] = Default::default();
    for_each_found(tracker, sequences, progress, &mut |target, truth| {
        let bbox = target.bbox();
        if overlap(&bbox, &truth) <= FOLLOWED {
            return Ok(());
        }
        for (found, config) in found.iter_mut().zip(&configs) {
            if let Some(density) = target.density_with(config, num_samples)? {
                match density.edge_regions(BoxDensity::LEVEL) {
                    Err(Error::Core(ebm_core::Error::NoSpread { .. })) => {}
                    regions => found.push(&regions?, bbox, truth),
                }
            }
        }
        Ok(())
    })?;
    let mut best: Option<(f64, DensityConfig)> = None;
    for (found, config) in found.iter().zip(configs) {
        let (factors, width) = found.calibrated(BoxDensity::LEVEL)?;
        let (temperature, frames) = (config.temperature, found.len());
        progress.message(&format!(
            "temperature {temperature}: the four bands together {width:.3} sides wide, by {frames} frames"
        ));
        if best.as_ref().is_none_or(|(least, _)| width < *least) {
            best = Some((width, DensityConfig { factors: Some(factors), ..config }));
        }
    }
    Ok(best.map_or_else(|| density.clone(), |(_, config)| config))
}

/// Measures the coverage of the annotated edges of `sequences` by the bands of `tracker`.
///
/// # Errors
/// When a sequence cannot be tracked.
pub fn band_coverage(
    tracker: &Tracker,
    sequences: &[Sequence],
    num_samples: usize,
    progress: &mut dyn Progress,
) -> Result<BandCoverage> {
    let mut sums = BandCoverage::default();
    for_each_found(tracker, sequences, progress, &mut |target, truth| {
        let Some(density) = target.density(num_samples)? else { return Ok(()) };
        let bands = match density.bands() {
            Err(Error::Core(ebm_core::Error::NoSpread { .. })) => return Ok(()),
            bands => bands?,
        };
        let (bbox, edges) = (target.bbox(), edges_of(truth));
        let followed = f64::from(u8::from(overlap(&bbox, &truth) > FOLLOWED));
        sums.frames += 1;
        sums.followed += followed;
        for place in 0..4 {
            let held = f64::from(u8::from(bands[place].contains(edges[place])));
            sums.held[place] += held;
            sums.held_followed[place] += held * followed;
            sums.widths[place] += bands[place].width() / bbox[2 + place % 2];
        }
        Ok(())
    })?;
    let frames = sums.frames.max(1) as f64;
    let [held, widths] = [sums.held, sums.widths].map(|sums| sums.map(|sum| sum / frames));
    let held_followed = sums.held_followed.map(|sum| sum / sums.followed.max(1.0));
    Ok(BandCoverage { frames: sums.frames, followed: sums.followed / frames, held, held_followed, widths })
}
