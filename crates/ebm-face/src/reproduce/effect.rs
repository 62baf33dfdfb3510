//! What refinement does to each baseline's estimates: in the mean, where on the axis of y, and with other λ.

use candle_core::Tensor;
use ebm_base::Key;
use ebm_core::EnergyModel;
use ebm_experiment::PairedDifference;

use super::networks::Entry;
use super::results::{Band, MethodRow, StepLength};
use crate::Result;
use crate::config::RefinementConfig;
use crate::evaluation::{absolute_error, numbers, refined};

/// Seed of the bootstrap's draws.
const BOOTSTRAP_SEED: u64 = 2020;
/// How many parts of as many images the estimates are divided into.
const BANDS: usize = 5;

/// A baseline's estimates of one seed, and the same refined.
pub(super) struct Refinement<'a> {
    /// The baseline's key.
    pub method: &'a str,
    /// The energy model of its seed.
    pub energy: &'a Entry,
    /// The estimates, `(N, D)`.
    pub before: Tensor,
    /// The same refined.
    pub after: Tensor,
}

impl Refinement<'_> {
    /// The error of each of the estimates `y` `(N, D)`, the mean over its coordinates.
    fn errors(&self, y: &Tensor) -> Result<Vec<f64>> {
        numbers(&(y - &self.energy.results.y)?.abs()?.mean(1)?)
    }
}

/// What `of` finds of the seeds of each method, in the order of the table.
fn by_method<'a, T>(
    all: &[Refinement<'a>],
    of: impl Fn(&str, &[&Refinement<'a>]) -> Result<Vec<T>>,
) -> Result<Vec<MethodRow<T>>> {
    let mut methods: Vec<(&str, Vec<&Refinement<'_>>)> = Vec::new();
    for one in all {
        match methods.iter_mut().find(|(method, _)| *method == one.method) {
            Some((_, seeds)) => seeds.push(one),
            None => methods.push((one.method, vec![one])),
        }
    }
    let mut rows = Vec::new();
    for (method, seeds) in methods {
        let found = of(method, &seeds)?.into_iter();
        rows.extend(found.map(|figures| MethodRow { fold: None, method: method.to_owned(), figures }));
    }
    Ok(rows)
}

/// By how much each method's error changes, image by image.
pub(super) fn paired(all: &[Refinement<'_>]) -> Result<Vec<MethodRow<PairedDifference>>> {
    by_method(all, |method, seeds| {
        let mut differences = Vec::new();
        for one in seeds {
            let (before, after) = (one.errors(&one.before)?, one.errors(&one.after)?);
            differences.push(after.iter().zip(before).map(|(after, before)| after - before).collect());
        }
        let key = Key::new(BOOTSTRAP_SEED).split("bootstrap").split(method);
        Ok(vec![PairedDifference::new(&differences, key)?])
    })
}

/// The same by the estimate before refinement, in [`BANDS`] parts of as many images, where y has one coordinate.
pub(super) fn bands(all: &[Refinement<'_>]) -> Result<Vec<MethodRow<Band>>> {
    by_method(all, |_, seeds| {
        // Of each image the estimate before and after refinement, y, and f' at the first.
        let mut images: Vec<[f64; 4]> = Vec::new();
        for one in seeds {
            if one.before.dim(1)? != 1 {
                return Ok(Vec::new());
            }
            let Entry { head, results: seen, .. } = one.energy;
            let (_, slope) = head.score_and_grad(&head.features(&seen.g_x)?, &one.before.unsqueeze(1)?)?;
            let [before, after, y, slope] = [&one.before, &one.after, &seen.y, &slope].map(numbers);
            let (before, after, y, slope) = (before?, after?, y?, slope?);
            images.extend((0..y.len()).map(|i| [before[i], after[i], y[i], slope[i]]));
        }
        images.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let bands = images.chunks(images.len().div_ceil(BANDS).max(1)).map(|band| {
            let mean = |of: &dyn Fn(&[f64; 4]) -> f64| band.iter().map(of).sum::<f64>() / band.len() as f64;
            Band {
                range: [band[0][0], band[band.len() - 1][0]],
                images: band.len(),
                mae: [0, 1].map(|k| mean(&|image| (image[k] - image[2]).abs())),
                bias: [0, 1].map(|k| mean(&|image| image[k] - image[2])),
                slope: mean(&|image| image[3]),
            }
        });
        Ok(bands.collect())
    })
}

/// The error with each λ that was to choose from.
pub(super) fn by_step_length(
    refinement: &RefinementConfig,
    all: &[Refinement<'_>],
) -> Result<Vec<MethodRow<StepLength>>> {
    by_method(all, |_, seeds| {
        let error = |&step_length: &f64| -> Result<StepLength> {
            let mut mae = 0.0;
            for one in seeds {
                let Entry { head, results: seen, .. } = one.energy;
                let after = refined(head, &seen.g_x, &one.before, &refinement.ascent(step_length))?;
                mae += absolute_error(&after, &seen.y)?.mean / seeds.len() as f64;
            }
            Ok(StepLength { step_length, mae })
        };
        refinement.step_lengths.iter().map(error).collect()
    })
}
