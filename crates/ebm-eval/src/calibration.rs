//! Metrics of predicted densities of a scalar target against observed values.
//!
//! All functions take plain numbers: log densities, distribution functions on a grid, intervals, and the
//! observed values y. A region is a list of disjoint intervals `[from, to]`; a multimodal density can have
//! several.
//!
//! | Question | Item |
//! |---|---|
//! | How good are the densities overall? | [`nll`], [`crps_of_cdf`] |
//! | Are the stated probabilities right? | [`PitHistogram`], [`calibration_curve`], [`calibration_error`], [`coverage`] |
//! | How narrow are the regions? | [`mean_width`] |
//! | How large is the error of the most certain predictions? | [`risk_at_coverage`] |
//! | Which regions contain y with a guaranteed frequency? | [`SplitConformal`] |

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Computes the mean of `−log p(y_i | x_i)`, in nats, from the log densities; +∞ if a density is zero at its
/// y.
///
/// # Errors
/// [`Error::Empty`] without values, or [`Error::Value`] for NaN and +∞.
pub fn nll(log_probs: &[f64]) -> Result<f64> {
    check_values("log densities", log_probs, "a number or -inf", |value| value < f64::INFINITY)?;
    Ok(-log_probs.iter().sum::<f64>() / log_probs.len() as f64)
}

/// Computes the continuous ranked probability score (CRPS), ∫ (F(t) − 1{t ≥ y})² dt, exactly, in the units of y; lower
/// is better. F is linear between the values `cdf` at `points`, 0 below the first point and 1 above the last, and
/// `y` is the observed value.
///
/// # Errors
/// [`Error::Empty`], [`Error::Lengths`], and [`Error::Value`] unless the points are finite and ascend
/// strictly, the values of F ascend within \[0, 1\], and y is finite.
pub fn crps_of_cdf(points: &[f64], cdf: &[f64], y: f64) -> Result<f64> {
    check_values("grid points", points, "finite", f64::is_finite)?;
    check_lengths("values of the distribution function", cdf.len(), points.len())?;
    let within = |value: f64| (0.0..=1.0).contains(&value);
    check_values("values of the distribution function", cdf, "in [0, 1]", within)?;
    ascending("grid points", points, |a, b| a < b)?;
    ascending("values of the distribution function", cdf, |a, b| a <= b)?;
    check_value("the observed y", y, "finite", y.is_finite())?;

    let (first, last) = (points[0], points[points.len() - 1]);
    // Beyond the grid the integrand is 1 up to y.
    let outside = (first - y).max(y - last).max(0.0);
    let inside = points.windows(2).zip(cdf.windows(2)).map(|(t, f)| {
        let at = y.clamp(t[0], t[1]);
        let middle = f[0] + (f[1] - f[0]) * (at - t[0]) / (t[1] - t[0]);
        square(at - t[0], f[0], middle) + square(t[1] - at, 1.0 - middle, 1.0 - f[1])
    });
    Ok(outside + inside.sum::<f64>())
}

/// Returns ∫ g² over an interval of this `length`, for a linear g from `a` to `b`.
fn square(length: f64, a: f64, b: f64) -> f64 {
    length * (a * a + a * b + b * b) / 3.0
}

fn ascending(what: &'static str, values: &[f64], ok: impl Fn(f64, f64) -> bool) -> Result<()> {
    match values.windows(2).position(|pair| !ok(pair[0], pair[1])) {
        Some(index) => Err(Error::Value {
            what,
            index: index + 1,
            value: values[index + 1],
            expected: "in ascending order",
        }),
        None => Ok(()),
    }
}

/// Histogram of F(y_i | x_i), the predicted distribution functions at the observed y, over \[0, 1\]: flat if the
/// predictions are calibrated, ∪-shaped if they are too narrow, ∩-shaped if they are too wide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PitHistogram {
    /// Number of values in each of the bins of equal width. A value on the border of two bins counts in one.
    pub counts: Vec<usize>,
}

impl PitHistogram {
    /// Counts the values `pit` in `bins` bins.
    ///
    /// # Errors
    /// [`Error::Empty`] without values or bins, [`Error::Value`] for a value outside \[0, 1\].
    pub fn new(pit: &[f64], bins: usize) -> Result<Self> {
        check_pit(pit)?;
        if bins == 0 {
            return Err(Error::Empty("bins"));
        }
        let mut counts = vec![0; bins];
        for value in pit {
            counts[((value * bins as f64) as usize).min(bins - 1)] += 1;
        }
        Ok(Self { counts })
    }
}

/// Returns, for each of the `levels`, the fraction of `pit` values that are not above it. For quantiles, `pit` holds
/// F(y_i | x_i), the predicted distribution functions at the observed y; for regions, it holds the masses of the
/// smallest highest-density regions that contain the observed y. The predictions are calibrated if each fraction
/// equals its level.
///
/// # Errors
/// [`Error::Empty`], and [`Error::Value`] for numbers outside \[0, 1\].
pub fn calibration_curve(pit: &[f64], levels: &[f64]) -> Result<Vec<f64>> {
    check_pit(pit)?;
    check_values("levels", levels, "in [0, 1]", |level| (0.0..=1.0).contains(&level))?;
    let mut sorted = pit.to_vec();
    sorted.sort_by(f64::total_cmp);
    let observed = |level: &f64| sorted.partition_point(|value| value <= level) as f64 / pit.len() as f64;
    Ok(levels.iter().map(observed).collect())
}

/// Computes the expected calibration error: the mean over the `levels` of |observed − nominal|, from 0 to 1. Perfect
/// predictions of n examples still have an error of the order `1/√n`.
///
/// # Errors
/// The errors of [`calibration_curve`].
pub fn calibration_error(pit: &[f64], levels: &[f64]) -> Result<f64> {
    let observed = calibration_curve(pit, levels)?;
    let differences = observed.iter().zip(levels).map(|(observed, level)| (observed - level).abs());
    Ok(differences.sum::<f64>() / levels.len() as f64)
}

/// Computes the fraction of the observed `y` that lie in their region. Regions include their ends; an empty
/// region contains nothing.
///
/// # Errors
/// [`Error::Empty`], [`Error::Lengths`] unless there is one region for each y, [`Error::Value`] for a y that is
/// not finite and for a region that is not made of disjoint intervals in ascending order.
pub fn coverage<R: AsRef<[[f64; 2]]>>(regions: &[R], y: &[f64]) -> Result<f64> {
    check_values("observed y", y, "finite", f64::is_finite)?;
    check_lengths("regions", regions.len(), y.len())?;
    check_regions(regions)?;
    let holds = |region: &R, y: f64| region.as_ref().iter().any(|&[from, to]| from <= y && y <= to);
    let held = regions.iter().zip(y).filter(|(region, y)| holds(region, **y)).count();
    Ok(held as f64 / y.len() as f64)
}

/// Computes the mean total length of regions of one level, in the units of y. Of two predictions with the same
/// coverage, the one with the smaller width is better. The result is infinite if a region is infinite.
///
/// # Errors
/// [`Error::Empty`], and [`Error::Value`] for a region that is not made of disjoint intervals in ascending order.
pub fn mean_width<R: AsRef<[[f64; 2]]>>(regions: &[R]) -> Result<f64> {
    check_regions(regions)?;
    let width = |region: &R| region.as_ref().iter().map(|[from, to]| to - from).sum::<f64>();
    Ok(regions.iter().map(width).sum::<f64>() / regions.len() as f64)
}

/// Computes the risk-coverage curve: for each of the `fractions`, the mean of the `errors` over the ⌈fraction · n⌉
/// examples with the smallest `uncertainty`, such as the width of a predicted region. Ties keep the order of the
/// examples. With an uninformative uncertainty, every value is close to the mean error.
///
/// # Errors
/// [`Error::Empty`], [`Error::Lengths`], and [`Error::Value`] for an error or an uncertainty that is no number, or a
/// fraction outside (0, 1\].
pub fn risk_at_coverage(errors: &[f64], uncertainty: &[f64], fractions: &[f64]) -> Result<Vec<f64>> {
    check_values("errors", errors, "finite", f64::is_finite)?;
    check_lengths("uncertainties", uncertainty.len(), errors.len())?;
    check_values("uncertainties", uncertainty, "a number", |value| !value.is_nan())?;
    check_values("fractions", fractions, "in (0, 1]", |fraction| fraction > 0.0 && fraction <= 1.0)?;
    let mut order: Vec<usize> = (0..errors.len()).collect();
    order.sort_by(|&a, &b| uncertainty[a].total_cmp(&uncertainty[b]));
    let risk = |fraction: &f64| {
        // Keeps rounding errors from raising a whole product to the next integer.
        let count = ((fraction * errors.len() as f64 - 1e-9).ceil() as usize).max(1);
        order.iter().take(count).map(|&index| errors[index]).sum::<f64>() / count as f64
    };
    Ok(fractions.iter().map(risk).collect())
}

/// Split-conformal calibration: the threshold Q of a score that measures how badly y fits the prediction for its x.
/// For a new example, exchangeable with the n calibration examples, `score ≤ Q` holds with a probability of at least
/// 1 − α, and of less than 1 − α + 1/(n + 1) if scores never tie. The guarantee is an average over x, not for each x.
///
/// Two scores, and the region {y : score ≤ Q} of each:
///
/// | score | region |
/// |---|---|
/// | −log p(y given x) | the level set where log p is at least −Q; several intervals where p is multimodal |
/// | mass of the smallest highest-density region that contains y | the highest-density region of mass Q |
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitConformal {
    /// Q, the ⌈(1 − α)(n + 1)⌉-th smallest calibration score.
    pub threshold: f64,
}

impl SplitConformal {
    /// Computes Q from the scores of n calibration examples that the model was not trained on.
    ///
    /// The rank ⌈(1 − α)(n + 1)⌉ gives the guarantee in finite samples. Published code for regression uses
    /// ⌊(1 − α) n⌋ + 1, which is one less for some n and then loses the guarantee.
    ///
    /// # Errors
    /// [`Error::Value`] unless α is in (0, 1) and no score is NaN (infinite ones are allowed),
    /// [`Error::Empty`], and [`Error::TooFew`] if n < (1 − α)/α, where only the region of all y has the guarantee.
    pub fn calibrate(scores: &[f64], alpha: f64) -> Result<Self> {
        check_value("alpha", alpha, "in (0, 1)", alpha > 0.0 && alpha < 1.0)?;
        check_values("scores", scores, "a number", |score| !score.is_nan())?;
        let count = scores.len();
        // Keeps rounding errors from raising a whole product to the next integer.
        let rank = ((1.0 - alpha) * (count + 1) as f64 - 1e-9).ceil() as usize;
        if rank > count {
            let needed = ((1.0 - alpha) / alpha - 1e-9).ceil() as usize;
            return Err(Error::TooFew("calibration scores", count, needed));
        }
        let mut scores = scores.to_vec();
        scores.sort_by(f64::total_cmp);
        // For α close to 1 the rank is 0; the smallest score satisfies the guarantee then.
        Ok(Self { threshold: scores[rank.max(1) - 1] })
    }

    /// Returns whether a y with this `score` is in the region.
    pub fn contains(&self, score: f64) -> bool {
        score <= self.threshold
    }
}

/// Checks that there is at least one value and that every value is `ok`; `expected` describes valid values.
fn check_values(
    what: &'static str,
    values: &[f64],
    expected: &'static str,
    ok: impl Fn(f64) -> bool,
) -> Result<()> {
    if values.is_empty() {
        return Err(Error::Empty(what));
    }
    match values.iter().position(|&value| !ok(value)) {
        Some(index) => Err(Error::Value { what, index, value: values[index], expected }),
        None => Ok(()),
    }
}

/// Checks that a single value is `ok`.
fn check_value(what: &'static str, value: f64, expected: &'static str, ok: bool) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::Value { what, index: 0, value, expected }) }
}

/// Checks that the list `what` has the `expected` length.
fn check_lengths(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Lengths { what, found, expected }) }
}

/// Checks that each region consists of disjoint intervals in ascending order; their ends may be infinite.
fn check_regions<R: AsRef<[[f64; 2]]>>(regions: &[R]) -> Result<()> {
    if regions.is_empty() {
        return Err(Error::Empty("regions"));
    }
    for (index, region) in regions.iter().enumerate() {
        let ends = region.as_ref().as_flattened();
        let mut bad =
            ends.windows(2).filter(|pair| pair[0].partial_cmp(&pair[1]).is_none_or(Ordering::is_gt));
        // An infinite end must be the outer end of its interval.
        let mut nowhere =
            region.as_ref().iter().filter(|[from, to]| *from == f64::INFINITY || *to == f64::NEG_INFINITY);
        let value = bad.next().map(|pair| pair[1]).or_else(|| nowhere.next().map(|interval| interval[0]));
        if let Some(value) = value {
            let expected = "an end of disjoint intervals [from, to] in ascending order";
            return Err(Error::Value { what: "regions", index, value, expected });
        }
    }
    Ok(())
}

/// Checks that there are values and that all are probability integral transforms, in \[0, 1\].
fn check_pit(pit: &[f64]) -> Result<()> {
    check_values("PIT values", pit, "in [0, 1]", |value| (0.0..=1.0).contains(&value))
}
