//! What refinement does to each baseline's estimates: in the mean, where on the axis of y, and with other λ.

use candle_core::Tensor;
use ebm_core::EnergyModel;
use ebm_experiment::PairedDifference;
use ebm_seed::Key;

use super::heads::Seen;
use super::results::{BandRow, PairedRow, StepLengthRow};
use crate::config::RefinementConfig;
use crate::evaluation::{absolute_error, numbers, refined};
use crate::{EnergyHead, Result};

/// Seed of the bootstrap's draws.
const BOOTSTRAP_SEED: u64 = 2020;
/// How many parts of as many images the estimates are divided into.
const BANDS: usize = 5;

/// A baseline's estimates of one seed, and the same refined.
pub(super) struct Refinement<'a> {
    /// The baseline's key.
    pub method: &'a str,
    /// The energy model of its seed, and what it sees of the images.
    pub energy: (&'a EnergyHead, &'a Seen),
    /// The estimates, `(N, D)`.
    pub before: Tensor,
    /// The same refined.
    pub after: Tensor,
}

impl Refinement<'_> {
    fn targets(&self) -> &Tensor {
        &self.energy.1.y
    }

    /// The error of each of the estimates `y` `(N, D)`, the mean over its coordinates.
    fn errors(&self, y: &Tensor) -> Result<Vec<f64>> {
        numbers(&(y - self.targets())?.abs()?.mean(1)?)
    }
}

/// All of a method, for each method in the order of the table.
fn by_method<'a, 'b>(all: &'b [Refinement<'a>]) -> Vec<(&'a str, Vec<&'b Refinement<'a>>)> {
    let mut methods: Vec<(&str, Vec<&Refinement<'_>>)> = Vec::new();
    for one in all {
        match methods.iter_mut().find(|(method, _)| *method == one.method) {
            Some((_, seeds)) => seeds.push(one),
            None => methods.push((one.method, vec![one])),
        }
    }
    methods
}

/// By how much each method's error changes, image by image.
pub(super) fn paired(all: &[Refinement<'_>]) -> Result<Vec<PairedRow>> {
    let mut rows = Vec::new();
    for (method, seeds) in by_method(all) {
        let mut differences = Vec::new();
        for one in seeds {
            let (before, after) = (one.errors(&one.before)?, one.errors(&one.after)?);
            differences.push(after.iter().zip(before).map(|(after, before)| after - before).collect());
        }
        let key = Key::new(BOOTSTRAP_SEED).split("bootstrap").split(method);
        let difference = PairedDifference::new(&differences, key)?;
        rows.push(PairedRow { fold: None, method: method.to_owned(), difference });
    }
    Ok(rows)
}

/// The same by the estimate before refinement, in [`BANDS`] parts of as many images, where y has one coordinate.
pub(super) fn bands(all: &[Refinement<'_>]) -> Result<Vec<BandRow>> {
    let mut rows = Vec::new();
    for (method, seeds) in by_method(all) {
        let mut images = Vec::new();
        for one in seeds {
            if one.before.dim(1)? != 1 {
                return Ok(Vec::new());
            }
            let (head, seen) = one.energy;
            let (_, slope) = head.score_and_grad(&head.features(&seen.g_x)?, &one.before.unsqueeze(1)?)?;
            let columns = [&one.before, &one.after, one.targets(), &slope].map(numbers);
            let [before, after, y, slope] = columns;
            let (before, after, y, slope) = (before?, after?, y?, slope?);
            images.extend((0..y.len()).map(|i| Image {
                before: before[i],
                after: after[i],
                y: y[i],
                slope: slope[i],
            }));
        }
        images.sort_by(|a, b| a.before.total_cmp(&b.before));
        for band in images.chunks(images.len().div_ceil(BANDS).max(1)) {
            let mean =
                |value: &dyn Fn(&Image) -> f64| band.iter().map(value).sum::<f64>() / band.len() as f64;
            rows.push(BandRow {
                method: method.to_owned(),
                range: [band[0].before, band[band.len() - 1].before],
                images: band.len(),
                mae: [
                    mean(&|image| (image.before - image.y).abs()),
                    mean(&|image| (image.after - image.y).abs()),
                ],
                bias: [mean(&|image| image.before - image.y), mean(&|image| image.after - image.y)],
                slope: mean(&|image| image.slope),
            });
        }
    }
    Ok(rows)
}

/// One image of a band.
struct Image {
    before: f64,
    after: f64,
    y: f64,
    /// f' at `before`.
    slope: f64,
}

/// The error with each λ that was to choose from, the mean over seeds.
pub(super) fn by_step_length(
    refinement: &RefinementConfig,
    all: &[Refinement<'_>],
) -> Result<Vec<StepLengthRow>> {
    let mut rows = Vec::new();
    for (method, seeds) in by_method(all) {
        for &step_length in &refinement.step_lengths {
            let ascent = refinement.ascent(step_length);
            let mut mae = 0.0;
            for one in &seeds {
                let (head, seen) = one.energy;
                let after = refined(head, &seen.g_x, &one.before, &ascent)?;
                mae += absolute_error(&after, &seen.y)?.mean / seeds.len() as f64;
            }
            rows.push(StepLengthRow { fold: None, method: method.to_owned(), step_length, mae });
        }
    }
    Ok(rows)
}
