//! Estimates, their refinement, densities, and the errors of these.

use candle_core::{DType, Device, Tensor};
use ebm_core::parametric::Parametric;
use ebm_core::{EnergyModel, GradientAscent, Grid, GridDensity, refine};
use ebm_eval::AbsoluteError;

use crate::network::Head;
use crate::{Error, Result};

/// Maximum number of rows in one pass through a head.
const ROWS: usize = 256;

impl Head {
    /// Computes all that does not depend on y from `g_x` `(N, X)`. For a baseline, these are its outputs `(N, P)`.
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

/// Scores of a head: f of an energy model, the log-density of a baseline.
impl EnergyModel for Head {
    /// Output of [`features`](Head::features).
    type Features = Tensor;

    fn score(&self, features: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        match self {
            Self::Energy(head) => head.score(features, y),
            Self::Baseline(model, _) => model.log_prob(features, y)?.ok_or(ebm_core::Error::Unsupported {
                what: "a density",
                remedy: "this baseline has only a point estimate; take another one",
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

/// Returns a baseline's estimates `(N, D)` from its `outputs`.
///
/// # Errors
/// [`Error::Config`] for an energy model; as [`Parametric::predict`].
pub fn estimates(head: &Head, outputs: &Tensor) -> Result<Tensor> {
    match head {
        Head::Baseline(model, _) => Ok(model.predict(outputs)?.detach()),
        Head::Energy(_) => Err(Error::config(
            "of the estimates",
            "an energy model has no estimates before refinement; give a baseline",
        )),
    }
}

/// Refines the estimates `y0` `(N, D)` by ascent on f, for the images with the features `g_x` `(N, X)`.
///
/// # Errors
/// As [`refine`].
pub fn refined(head: &Head, g_x: &Tensor, y0: &Tensor, ascent: &GradientAscent) -> Result<Tensor> {
    by_rows(&[g_x, y0], |rows| {
        let features = head.features(&rows[0])?;
        Ok(refine(head, &features, &rows[1].unsqueeze(1)?, ascent)?.y.squeeze(1)?)
    })
}

/// Returns `true` for errors of a baseline without a density, such as inconsistent ranks of Niu et al. or early CORAL.
fn lacks_density(error: &ebm_core::Error) -> bool {
    matches!(error, ebm_core::Error::InconsistentRanks { .. } | ebm_core::Error::Unsupported { .. })
}

/// Returns the density of each coordinate of y on its grid in `grids`, for each image with features `g_x` `(N, X)`: N
/// lists of D densities. Returns `None` for a baseline without a density.
///
/// # Errors
/// As [`ebm_core::Conditional::marginals`].
pub fn densities(head: &Head, g_x: &Tensor, grids: &[Grid]) -> Result<Option<Vec<Vec<GridDensity>>>> {
    let mut densities = Vec::with_capacity(g_x.dim(0)?);
    for (start, count) in chunks(g_x.dim(0)?) {
        let features = head.features(&g_x.narrow(0, start, count)?)?;
        match head.bind(&features, count).marginals(grids) {
            Err(error) if lacks_density(&error) => return Ok(None),
            found => densities.extend(found?),
        }
    }
    Ok(Some(densities))
}

/// Returns the mean of −log p(y | x), in nats, at the targets `y` `(N, D)` of the images with features `g_x` `(N, X)`.
/// Returns `None` for a baseline without a density. For an energy model, `densities` give the normaliser.
///
/// # Errors
/// When the head refuses; [`ebm_eval::Error::Value`] when a log-density is not a number.
pub fn nll(head: &Head, g_x: &Tensor, y: &Tensor, densities: &[Vec<GridDensity>]) -> Result<Option<f64>> {
    let mut log_probs = Vec::with_capacity(g_x.dim(0)?);
    for (start, count) in chunks(g_x.dim(0)?) {
        let features = head.features(&g_x.narrow(0, start, count)?)?;
        let y = y.narrow(0, start, count)?.unsqueeze(1)?;
        let f = match head.score(&features, &y) {
            Err(error) if lacks_density(&error) => return Ok(None),
            f => numbers(&f?.detach())?,
        };
        // Before normalisation, the density of any coordinate has the same integral: exp f over all coordinates.
        let log_z = |image: usize| match head {
            Head::Energy(_) => densities[start + image].first().map_or(0.0, GridDensity::log_z),
            Head::Baseline(..) => 0.0,
        };
        log_probs.extend(f.into_iter().enumerate().map(|(image, f)| f - log_z(image)));
    }
    Ok(Some(ebm_eval::calibration::nll(&log_probs)?))
}

/// Returns the absolute error of the estimates `y` `(N, D)` against `targets` `(N, D)`.
///
/// # Errors
/// As [`AbsoluteError::new`].
pub fn absolute_error(y: &Tensor, targets: &Tensor) -> Result<AbsoluteError> {
    Ok(AbsoluteError::new(&numbers(y)?, &numbers(targets)?, targets.dim(1)?)?)
}

/// Returns all numbers of a tensor, row by row.
pub(crate) fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?)
}

/// Applies `f` to the rows of `tensors`, at most [`ROWS`] at a time, and joins the results.
fn by_rows(tensors: &[&Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<Tensor> {
    let count = tensors[0].dim(0)?;
    let mut parts = Vec::new();
    for (start, count) in chunks(count) {
        let rows = tensors.iter().map(|tensor| tensor.narrow(0, start, count)?.contiguous());
        parts.push(f(&rows.collect::<candle_core::Result<Vec<_>>>()?)?);
    }
    Ok(Tensor::cat(&parts, 0)?)
}

/// Returns start and length of each chunk of `count` rows.
fn chunks(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).step_by(ROWS).map(move |start| (start, ROWS.min(count - start)))
}
