//! Discretisation of a coordinate.

use candle_core::Tensor;
use ebm_base::settings;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, check, host};

/// Discretisation of the real line into C intervals, each with a centre that represents all its values: the ages
/// 0 to 100, the angles −75° to 75°, or the ranks of an ordinal regression.
///
/// Neighbouring bins meet half-way between their centres. The centres of the first and the last bin are in their
/// middle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Bins {
    centers: Vec<f64>,
    /// Borders of the bins, C + 1 numbers.
    edges: Vec<f64>,
}

settings! {
    /// Bins as a configuration file states them.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    enum Unchecked {
        Centers(Vec<f64> where -1e6..=1e6),
        Uniform { first: f64 where -1e6..=1e6, step: f64 where 1e-6..=1e6, count: usize where 2..=65_536 },
    }
}

settings!(Bins as Unchecked);

impl TryFrom<Unchecked> for Bins {
    type Error = Error;

    fn try_from(unchecked: Unchecked) -> Result<Self> {
        match unchecked {
            Unchecked::Centers(centers) => Self::new(centers),
            Unchecked::Uniform { first, step, count } => Self::uniform(first, step, count),
        }
    }
}

impl From<Bins> for Unchecked {
    fn from(bins: Bins) -> Self {
        Self::Centers(bins.centers)
    }
}

impl Bins {
    /// Largest number of bins, so that a mistyped count cannot exhaust the memory.
    const MAX_COUNT: usize = 1 << 20;

    /// Creates the bins with these centres, in the units of y.
    ///
    /// # Errors
    /// [`Error::Setting`] unless there are at least two centres (one has no width), all finite and in
    /// ascending order.
    pub fn new(centers: Vec<f64>) -> Result<Self> {
        let setting = |value: String, expected| Error::Setting { name: "bins", value, expected };
        let count = centers.len();
        if !(2..=Self::MAX_COUNT).contains(&count) {
            return Err(setting(format!("{count} centres"), "at least 2 and at most 2^20 centres"));
        }
        if let Some(center) = centers.iter().find(|center| center.abs() > 1e30 || center.is_nan()) {
            return Err(setting(center.to_string(), "made of centres between -1e30 and 1e30"));
        }
        let half: Vec<f64> = centers.windows(2).map(|pair| 0.5 * (pair[1] - pair[0])).collect();
        if let Some(at) = half.iter().position(|half| *half <= 0.0) {
            let pair = format!("[{}, {}]", centers[at], centers[at + 1]);
            return Err(setting(pair, "made of strictly ascending centres"));
        }
        let mut edges = vec![centers[0] - half[0]];
        edges.extend(centers.iter().zip(&half).map(|(center, half)| center + half));
        edges.push(centers[count - 1] + half[count - 2]);
        Ok(Self { centers, edges })
    }

    /// Creates C = `count` bins with the centres `first`, `first + step`, …
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn uniform(first: f64, step: f64, count: usize) -> Result<Self> {
        // One bin more than the limit is enough for the error.
        Self::new((0..count.min(Self::MAX_COUNT + 1)).map(|index| first + step * index as f64).collect())
    }

    /// Returns the centres, in ascending order.
    pub fn centers(&self) -> &[f64] {
        &self.centers
    }

    /// Returns C, the number of bins, at least 2.
    #[expect(clippy::len_without_is_empty, reason = "bins are never empty")]
    pub fn len(&self) -> usize {
        self.centers.len()
    }

    /// Returns the index of the bin whose centre is nearest to `y`, or the upper one half-way between two. A
    /// value outside all bins belongs to the first or the last.
    pub fn nearest(&self, y: f64) -> usize {
        let inner = &self.edges[1..self.len()];
        inner.partition_point(|edge| *edge <= y)
    }

    /// Returns the index of the bin that contains `y`, its lower border included, or `None` outside all bins.
    pub fn containing(&self, y: f64) -> Option<usize> {
        (self.edges[0] <= y && y < self.edges[self.len()]).then(|| self.nearest(y))
    }

    /// Returns the log-density, `(B, M)`, at `y`, `(B, M, D)`, of a density that is constant in each bin: the sum
    /// over the D coordinates of `log_probabilities`, `(B, D, C)`, minus the logarithm of the bin's width, and −∞
    /// outside the bins.
    pub(super) fn log_density(&self, log_probabilities: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (batch, count, dim) = check::dims3("y", y)?;
        check::finite("y", y)?;
        let log_widths: Vec<f64> = self.edges.windows(2).map(|edges| (edges[1] - edges[0]).ln()).collect();
        // The indices are found for one coordinate after the other, as (B, D, M).
        let bins: Vec<Option<usize>> =
            host::values(&y.detach().transpose(1, 2)?)?.into_iter().map(|y| self.containing(y)).collect();
        let offsets = bins.iter().map(|bin| bin.map_or(f64::NEG_INFINITY, |bin| -log_widths[bin])).collect();
        let offsets = host::tensor(offsets, (batch, dim, count), log_probabilities)?;
        let indices = bins.into_iter().map(|bin| bin.unwrap_or(0) as u32).collect();
        let indices = Tensor::from_vec(indices, (batch, dim, count), log_probabilities.device())?;
        Ok((log_probabilities.contiguous()?.gather(&indices, 2)? + offsets)?.sum(1)?)
    }
}
