//! Predicted densities of rows.

use ebm_base::Key;
use ebm_tabular::{Result, TargetDensity};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::data::{bytes, floats, watched};

/// Densities p(y | x) of n rows.
#[pyclass(frozen)]
pub struct Densities(pub Vec<TargetDensity>);

impl Densities {
    /// Computes numbers from each density, as bytes of (n, k).
    fn each<'py, I: IntoIterator<Item = f64>>(
        &self,
        py: Python<'py>,
        of: impl Fn(usize, &TargetDensity) -> Result<I> + Sync,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let values = watched(py, |_| {
            let mut values = Vec::new();
            for (row, density) in self.0.iter().enumerate() {
                values.extend(of(row, density)?);
            }
            Ok(values)
        })?;
        Ok(bytes(py, values))
    }

    /// Computes a number from each density and each of its y (n, k).
    fn at<'py>(
        &self,
        py: Python<'py>,
        y: &PyBackedBytes,
        of: fn(&TargetDensity, f64) -> f64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let y: Vec<f64> = floats(y).collect();
        let width = y.len() / self.0.len().max(1);
        self.each(py, |row, density| {
            Ok(y[row * width..(row + 1) * width].iter().map(|y| of(density, *y)).collect::<Vec<_>>())
        })
    }
}

#[pymethods]
impl Densities {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.each(py, |_, density| Ok([density.mean()]))
    }

    fn mode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.each(py, |_, density| Ok(density.modes().into_iter().chain([f64::NAN]).take(1)))
    }

    fn quantile<'py>(&self, py: Python<'py>, probabilities: Vec<f64>) -> PyResult<Bound<'py, PyBytes>> {
        self.each(py, |_, density| {
            probabilities.iter().map(|probability| density.quantile(*probability)).collect::<Result<Vec<_>>>()
        })
    }

    fn log_prob<'py>(&self, py: Python<'py>, y: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        self.at(py, &y, TargetDensity::log_prob)
    }

    fn cdf<'py>(&self, py: Python<'py>, y: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        self.at(py, &y, TargetDensity::cdf)
    }

    fn sample<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Bound<'py, PyBytes>> {
        let key = Key::new(seed).split("samples");
        self.each(py, |row, density| Ok(density.sample(count, &mut key.index(row as u64).rng())))
    }

    /// Returns the intervals of each row's smallest region of this mass, one after the other.
    fn region<'py>(&self, py: Python<'py>, mass: f64) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let regions =
            watched(py, |_| self.0.iter().map(|density| density.region(mass)).collect::<Result<Vec<_>>>())?;
        Ok(regions.into_iter().map(|intervals| bytes(py, intervals.into_iter().flatten())).collect())
    }
}
