//! Estimates, their refinement, densities, and how good they are.

use candle_core::{DType, Device, Tensor};
use ebm_core::parametric::Parametric;
use ebm_core::{EnergyModel, GradientAscent, Grid, GridDensity, refine};
use ebm_eval::AbsoluteError;

use crate::network::Head;
use crate::{Error, Result};

/// Rows that go through a head together.
const ROWS: usize = 256;

impl Head {
    /// What the head makes of g_x `(N, X)` before it sees any y: a baseline its outputs `(N, P)`.
    ///
    /// # Errors
    /// When `g_x` has another shape.
    pub fn features(&self, g_x: &Tensor) -> Result<Tensor> {
        let head = match self {
            Self::Energy(head) => return head.features(g_x),
            Self::Baseline(_, head) => head,
        };
        let g_x = g_x.to_device(head.device())?;
        let outputs = by_rows(&[&g_x], |rows| Ok(head.forward(&rows[0])?.detach()))?;
        Ok(outputs.to_device(&Device::Cpu)?)
    }
}

/// Of a baseline f is the logarithm of its density.
impl EnergyModel for Head {
    /// [`features`](Head::features).
    type Features = Tensor;

    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        match self {
            Self::Energy(head) => head.score(features, y),
            Self::Baseline(model, _) => model.log_prob(features, y)?.ok_or(ebm_core::Error::Unsupported {
                what: "a density",
                remedy: "this baseline has an estimate alone",
            }),
        }
    }

    fn score_and_grad(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        match self {
            Self::Energy(head) => head.score_and_grad(features, y),
            Self::Baseline(..) => {
                Err(ebm_core::Error::Unsupported { what: "an ascent", remedy: "take an energy model" })
            }
        }
    }
}

/// A baseline's estimates `(N, D)` from its `outputs`.
///
/// # Errors
/// [`Error::Config`] for an energy model; as [`Parametric::predict`].
pub fn estimates(head: &Head, outputs: &Tensor) -> Result<Tensor> {
    match head {
        Head::Baseline(model, _) => Ok(model.predict(outputs)?.detach()),
        Head::Energy(_) => {
            Err(Error::config("of the estimates", "an energy model has none before refinement"))
        }
    }
}

/// The estimates `y0`, `(N, D)`, refined with f of the images with features g_x `(N, X)`.
///
/// # Errors
/// As [`refine`].
pub fn refined(head: &Head, g_x: &Tensor, y0: &Tensor, ascent: &GradientAscent) -> Result<Tensor> {
    by_rows(&[g_x, y0], |rows| {
        let features = head.features(&rows[0])?;
        Ok(refine(head, &features, &rows[1].unsqueeze(1)?, ascent)?.y.squeeze(1)?)
    })
}

/// What is without a density: Niu et al.'s answers, and CORAL's before it converges, need not be consistent.
fn has_none(error: &ebm_core::Error) -> bool {
    matches!(error, ebm_core::Error::InconsistentRanks { .. } | ebm_core::Error::Unsupported { .. })
}

/// The density of each coordinate of y on its one of the `grids`, for each of the images with features g_x
/// `(N, X)`: N lists of D; none for a baseline without a density.
///
/// # Errors
/// As [`ebm_core::Conditional::marginals`].
pub fn densities(head: &Head, g_x: &Tensor, grids: &[Grid]) -> Result<Option<Vec<Vec<GridDensity>>>> {
    let mut densities = Vec::with_capacity(g_x.dim(0)?);
    for (start, count) in chunks(g_x.dim(0)?) {
        let features = head.features(&g_x.narrow(0, start, count)?)?;
        match head.bind(&features, count).marginals(grids) {
            Err(error) if has_none(&error) => return Ok(None),
            found => densities.extend(found?),
        }
    }
    Ok(Some(densities))
}

/// The mean of −log p(y | x) of a head with these features at the targets y `(N, D)`, in nats; none for a baseline
/// without a density. That of an energy model is normalised as its [`densities`] are.
///
/// # Errors
/// Those of the head; [`ebm_eval::Error::Value`] where a log-density is no number.
pub fn nll(head: &Head, g_x: &Tensor, y: &Tensor, densities: &[Vec<GridDensity>]) -> Result<Option<f64>> {
    let mut log_probs = Vec::with_capacity(g_x.dim(0)?);
    for (start, count) in chunks(g_x.dim(0)?) {
        let features = head.features(&g_x.narrow(0, start, count)?)?;
        let y = y.narrow(0, start, count)?.unsqueeze(1)?;
        let f = match head.score(&features, &y) {
            Err(error) if has_none(&error) => return Ok(None),
            f => numbers(&f?.detach())?,
        };
        // The integral of a coordinate's density before normalisation is that of exp f over all coordinates.
        let log_z = |image: usize| match head {
            Head::Energy(_) => densities[start + image].first().map_or(0.0, GridDensity::log_z),
            Head::Baseline(..) => 0.0,
        };
        log_probs.extend(f.into_iter().enumerate().map(|(image, f)| f - log_z(image)));
    }
    Ok(Some(ebm_eval::calibration::nll(&log_probs)?))
}

/// The error of estimates `y` `(N, D)` at the targets `(N, D)`.
///
/// # Errors
/// As [`AbsoluteError::new`].
pub fn absolute_error(y: &Tensor, targets: &Tensor) -> Result<AbsoluteError> {
    Ok(AbsoluteError::new(&numbers(y)?, &numbers(targets)?, targets.dim(1)?)?)
}

/// All numbers of a tensor, row by row.
pub(crate) fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?)
}

/// `f` of the rows of `tensors`, some at a time.
fn by_rows(tensors: &[&Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<Tensor> {
    let count = tensors[0].dim(0)?;
    let mut parts = Vec::new();
    for (start, count) in chunks(count) {
        let rows = tensors.iter().map(|tensor| tensor.narrow(0, start, count)?.contiguous());
        parts.push(f(&rows.collect::<candle_core::Result<Vec<_>>>()?)?);
    }
    Ok(Tensor::cat(&parts, 0)?)
}

/// Start and length of each part of `count` rows.
fn chunks(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).step_by(ROWS).map(move |start| (start, ROWS.min(count - start)))
}
