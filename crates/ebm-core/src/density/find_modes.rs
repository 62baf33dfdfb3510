//! The modes of p(y | x) in any number of dimensions.

use candle_core::Tensor;

use crate::{EnergyModel, Error, GradientAscent, Result, check, host, refine};

/// A place that an ascent has led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Its D coordinates.
    pub y: Vec<f64>,
    /// f(x, y) there.
    pub f: f64,
}

/// Climbs f from `starts`, shape `(B, M, D)`, by [`refine`], and merges what arrives at the same place: those
/// whose coordinates all differ by at most `tolerance`, in the units of y, from a mode of higher f. For each
/// of the B inputs, the modes, higher f first; none if f is not finite at any of its starts.
///
/// An ascent that has not converged ends beside its mode and, with a small `tolerance`, counts as one more:
/// give it enough steps.
///
/// # Errors
/// [`Error::Empty`] without starts, [`Error::Setting`] for a `tolerance` that is negative or not finite; else
/// those of [`refine`].
pub fn find_modes<M: EnergyModel>(
    model: &M,
    features: &M::Features,
    starts: &Tensor,
    ascent: &GradientAscent,
    tolerance: f64,
) -> Result<Vec<Vec<Mode>>> {
    let (_, count, dim) = check::dims3("the starts", starts)?;
    if starts.elem_count() == 0 {
        return Err(Error::Empty { what: "the starts", shape: starts.dims().to_vec() });
    }
    let ok = (0.0..f64::INFINITY).contains(&tolerance);
    check::setting("tolerance", ok, tolerance, "finite and not negative")?;

    let refined = refine(model, features, starts, ascent)?;
    let (y, f) = (host::values(&refined.y)?, host::values(&refined.f)?);
    let arrived: Vec<Mode> = y.chunks_exact(dim).zip(f).map(|(y, f)| Mode { y: y.to_vec(), f }).collect();
    Ok(arrived.chunks_exact(count).map(|modes| merge(modes, tolerance)).collect())
}

fn merge(arrived: &[Mode], tolerance: f64) -> Vec<Mode> {
    let mut arrived: Vec<&Mode> = arrived.iter().filter(|mode| mode.f.is_finite()).collect();
    arrived.sort_by(|a, b| b.f.total_cmp(&a.f));
    let mut modes: Vec<Mode> = Vec::new();
    for candidate in arrived {
        let near = |mode: &Mode| mode.y.iter().zip(&candidate.y).all(|(a, b)| (a - b).abs() <= tolerance);
        if !modes.iter().any(near) {
            modes.push(candidate.clone());
        }
    }
    modes
}
