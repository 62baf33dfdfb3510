//! Scores of many candidates, in passes of bounded size.

use candle_core::Tensor;

use crate::model::checked_score;
use crate::{EnergyModel, Error, Result, check, host};

/// Largest number of candidates, of all inputs together, in one pass through the model, unless B alone is larger.
const CANDIDATES_PER_PASS: usize = 1 << 14;

/// Returns f at `y`, shape `(B, M, D)`, as B rows of M values. A value may be −∞, which is a density of zero.
pub(super) fn scores<M: EnergyModel>(model: &M, features: &M::Features, y: &Tensor) -> Result<Vec<Vec<f64>>> {
    let (batch, count, _) = check::dims3("y", y)?;
    let columns = candidates_per_pass(batch);
    let mut rows = vec![Vec::with_capacity(count); batch];
    for start in (0..count).step_by(columns) {
        let length = columns.min(count - start);
        let pass = y.narrow(1, start, length)?.contiguous()?;
        let f = host::values(&checked_score(model, features, &pass)?.detach())?;
        for (x, (row, f)) in rows.iter_mut().zip(f.chunks_exact(length)).enumerate() {
            if let Some(index) = f.iter().position(|&f| !is_score(f)) {
                let y = host::values(&pass.get(x)?.get(index)?)?;
                return Err(Error::NonFiniteScore { x, y, value: f[index] });
            }
            row.extend_from_slice(f);
        }
    }
    Ok(rows)
}

/// Returns the number of candidates of each of `batch` inputs in one pass.
pub(super) fn candidates_per_pass(batch: usize) -> usize {
    (CANDIDATES_PER_PASS / batch.max(1)).max(1)
}

/// Returns whether f is finite or −∞, so that `exp f` is a density.
pub(super) fn is_score(f: f64) -> bool {
    f < f64::INFINITY
}
