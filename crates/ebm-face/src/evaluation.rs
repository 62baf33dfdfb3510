//! Estimates, their refinement, densities, and how good they are.

use candle_core::{DType, Device, Tensor};
use ebm_core::parametric::{Baseline, Parametric};
use ebm_core::{EnergyModel, GradientAscent, Grid, GridDensity, refine};
use ebm_eval::AbsoluteError;

use crate::{BaselineHead, EnergyHead, Result};

/// Rows that go through a head together.
const ROWS: usize = 256;

/// The outputs `(N, P)` of a baseline's head for g_x `(N, X)`.
///
/// # Errors
/// When `g_x` has another shape.
pub fn outputs(head: &BaselineHead, g_x: &Tensor) -> Result<Tensor> {
    let g_x = g_x.to_device(head.device())?;
    let outputs = by_rows(&[&g_x], |rows| Ok(head.forward(&rows[0])?.detach()))?;
    Ok(outputs.to_device(&Device::Cpu)?)
}

/// A baseline's estimates `(N, D)` from its head's `outputs`.
///
/// # Errors
/// As [`Parametric::predict`].
pub fn estimates(model: &Baseline, outputs: &Tensor) -> Result<Tensor> {
    Ok(model.predict(outputs)?.detach())
}

/// The mean of −log p(y | x) of a baseline at the targets `(N, D)`, in nats; none for one without a density.
///
/// # Errors
/// As [`Parametric::log_prob`]; [`ebm_eval::Error::Value`] where a log-density is no number.
pub fn nll(model: &Baseline, outputs: &Tensor, targets: &Tensor) -> Result<Option<f64>> {
    let log_prob = match model.log_prob(outputs, &targets.unsqueeze(1)?) {
        // Niu et al.'s answers, and CORAL's before it converges, need not be consistent: there is no density
        // then.
        Err(ebm_core::Error::InconsistentRanks { .. }) => None,
        other => other?,
    };
    let Some(log_prob) = log_prob else { return Ok(None) };
    Ok(Some(ebm_eval::calibration::nll(&numbers(&log_prob.detach())?)?))
}

/// The estimates `y0`, `(N, D)`, refined with f of the images with features g_x `(N, X)`.
///
/// # Errors
/// As [`refine`].
pub fn refined(head: &EnergyHead, g_x: &Tensor, y0: &Tensor, ascent: &GradientAscent) -> Result<Tensor> {
    by_rows(&[g_x, y0], |rows| {
        let features = head.features(&rows[0])?;
        Ok(refine(head, &features, &rows[1].unsqueeze(1)?, ascent)?.y.squeeze(1)?)
    })
}

/// The density of each coordinate of y on its one of the `grids`, for each of the images with features g_x
/// `(N, X)`: N lists of D.
///
/// # Errors
/// As [`ebm_core::Conditional::marginals`].
pub fn densities(head: &EnergyHead, g_x: &Tensor, grids: &[Grid]) -> Result<Vec<Vec<GridDensity>>> {
    let mut densities = Vec::with_capacity(g_x.dim(0)?);
    for (start, count) in chunks(g_x.dim(0)?) {
        let features = head.features(&g_x.narrow(0, start, count)?)?;
        densities.extend(head.bind(&features, count).marginals(grids)?);
    }
    Ok(densities)
}

/// The same of a baseline with its head's `outputs` `(N, P)`; none for one without a density.
///
/// # Errors
/// As [`densities`].
pub fn baseline_densities(
    model: &Baseline,
    outputs: &Tensor,
    grids: &[Grid],
) -> Result<Option<Vec<Vec<GridDensity>>>> {
    let mut densities = Vec::with_capacity(outputs.dim(0)?);
    for (start, count) in chunks(outputs.dim(0)?) {
        let outputs = outputs.narrow(0, start, count)?.contiguous()?;
        match AsEnergy(model).bind(&outputs, count).marginals(grids) {
            Err(ebm_core::Error::InconsistentRanks { .. } | ebm_core::Error::Unsupported { .. }) => {
                return Ok(None);
            }
            found => densities.extend(found?),
        }
    }
    Ok(Some(densities))
}

/// A baseline's density as an energy model: f is its logarithm, the features are its head's outputs.
struct AsEnergy<'a>(&'a Baseline);

impl EnergyModel for AsEnergy<'_> {
    type Features = Tensor;

    fn score(&self, outputs: &Tensor, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.0.log_prob(outputs, y)?.ok_or(ebm_core::Error::Unsupported {
            what: "a density",
            remedy: "this baseline has an estimate alone",
        })
    }
}

/// The mean of −log p(y | x) of the energy model at the targets `(N, D)`, in nats, with the log Z(x) of its
/// [`densities`].
///
/// # Errors
/// As [`ebm_core::Conditional::log_prob`].
pub fn energy_nll(
    head: &EnergyHead,
    g_x: &Tensor,
    y: &Tensor,
    densities: &[Vec<GridDensity>],
) -> Result<f64> {
    // The integral of a coordinate's density before normalisation is that of exp f over all coordinates.
    let log_z: Vec<f64> = densities.iter().filter_map(|of_image| Some(of_image.first()?.log_z())).collect();
    let mut log_probs = Vec::with_capacity(log_z.len());
    for (start, count) in chunks(g_x.dim(0)?) {
        let features = head.features(&g_x.narrow(0, start, count)?)?;
        let y = y.narrow(0, start, count)?.unsqueeze(1)?;
        let found = head.bind(&features, count).log_prob(&y, &log_z[start..start + count])?;
        log_probs.extend(found.into_iter().flatten());
    }
    Ok(ebm_eval::calibration::nll(&log_probs)?)
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
