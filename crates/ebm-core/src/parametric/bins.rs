//! The discretisation of a coordinate.

use candle_core::Tensor;
use ebm_base::settings;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, check, host};

/// C intervals of the real line, each with a centre that stands for all values in it: the ages 0 to 100, the
/// angles −75° to 75°, or the ranks of an ordinal regression.
///
/// Neighbouring bins meet half-way between their centres; the first and the last reach as far outwards as
/// inwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Bins {
    centers: Vec<f64>,
    /// The C + 1 borders.
    edges: Vec<f64>,
}

settings! {
    /// How a configuration states bins.
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
    /// The most bins that are accepted, so that a mistyped count can not exhaust the memory.
    const MAX_COUNT: usize = 1 << 20;

    /// The bins with these centres, in the units of y.
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

    /// The C = `count` bins with the centres `first`, `first + step`, …
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn uniform(first: f64, step: f64, count: usize) -> Result<Self> {
        // One more than is accepted is enough to be refused.
        Self::new((0..count.min(Self::MAX_COUNT + 1)).map(|index| first + step * index as f64).collect())
    }

    /// The centres, in ascending order.
    pub fn centers(&self) -> &[f64] {
        &self.centers
    }

    /// C, at least 2.
    #[expect(clippy::len_without_is_empty, reason = "bins are never empty")]
    pub fn len(&self) -> usize {
        self.centers.len()
    }

    /// The index of the bin whose centre is nearest to `y`; half-way between two, the upper one. Values
    /// beyond the last bins belong to these.
    pub fn nearest(&self, y: f64) -> usize {
        let inner = &self.edges[1..self.len()];
        inner.partition_point(|edge| *edge <= y)
    }

    /// The index of the bin that contains `y`, its lower border included; none outside all bins.
    pub fn containing(&self, y: f64) -> Option<usize> {
        (self.edges[0] <= y && y < self.edges[self.len()]).then(|| self.nearest(y))
    }

    /// The log-density, `(B, M)`, at `y`, `(B, M, D)`, that is constant in each bin: the sum over the D
    /// coordinates of `log_probabilities`, `(B, D, C)`, less the bin's log-width, and −∞ outside the bins.
    pub(super) fn log_density(&self, log_probabilities: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (batch, count, dim) = check::dims3("y", y)?;
        check::finite("y", y)?;
        let log_widths: Vec<f64> = self.edges.windows(2).map(|edges| (edges[1] - edges[0]).ln()).collect();
        // Indices are sought for one coordinate after the other, as (B, D, M).
        let bins: Vec<Option<usize>> =
            host::values(&y.detach().transpose(1, 2)?)?.into_iter().map(|y| self.containing(y)).collect();
        let offsets = bins.iter().map(|bin| bin.map_or(f64::NEG_INFINITY, |bin| -log_widths[bin])).collect();
        let offsets = host::tensor(offsets, (batch, dim, count), log_probabilities)?;
        let indices = bins.into_iter().map(|bin| bin.unwrap_or(0) as u32).collect();
        let indices = Tensor::from_vec(indices, (batch, dim, count), log_probabilities.device())?;
        Ok((log_probabilities.contiguous()?.gather(&indices, 2)? + offsets)?.sum(1)?)
    }
}
