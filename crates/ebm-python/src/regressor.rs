//! A fit.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use candle_core::Tensor;
use ebm_experiment::config::{Configured, Overrides};
use ebm_tabular::{
    ColumnRoles, Encoded, Error, FitOptions, Kind, Prediction, Result, Support, TabularConfig,
    TabularRegressor, TargetSpec,
};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::data::{Frame, bytes, raised, watched};
use crate::densities::Densities;

/// Smallest number of rows for a fit: one for each part that a network is validated on.
const MIN_ROWS: usize = 5;

/// Rows are predicted in multiples of this number. In other batches products of matrices sum in another order, and the
/// prediction for a row would depend on the rows beside it.
const GROUP: usize = 8;

/// A fit, as `ebm fit` makes it.
#[pyclass(frozen)]
pub struct Regressor(TabularRegressor);

/// Arguments of a fit.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    target: String,
    weight: Option<String>,
    method: String,
    /// Bounds of the target, infinite ones for none.
    bounds: [f64; 2],
    categories: Vec<String>,
    seed: u64,
    /// Settings `KEY=VALUE`, as `ebm fit --set` takes them.
    settings: Vec<String>,
}

impl Options {
    fn fit(&self) -> Result<FitOptions> {
        let support = match self.bounds {
            [f64::NEG_INFINITY, f64::INFINITY] => Support::Real,
            [0.0, f64::INFINITY] => Support::Positive,
            [low, high] if low < high && (high - low).is_finite() => Support::Bounded { low, high },
            [low, high] => {
                let reason =
                    format!("the bounds {low} and {high} are not possible; give a lower and an upper one");
                return Err(Error::config("support", reason));
            }
        };
        let targets = vec![TargetSpec { support, ..TargetSpec::real(&self.target) }];
        let roles = ColumnRoles { categories: self.categories.clone(), ignored: vec![] };
        let (weight, method, seed) = (self.weight.clone(), self.method.clone(), self.seed);
        Ok(FitOptions { targets, roles, weight, method, seed, min_rows: MIN_ROWS, ..FitOptions::new("") })
    }

    fn config(&self) -> Result<TabularConfig> {
        let change = |text: &String| text.parse().map_err(|reason| Error::config("settings", reason));
        let changes = self.settings.iter().map(change).collect::<Result<_>>()?;
        Ok(Configured::load("tabular", &Overrides { smoke: false, changes })?.settings)
    }
}

impl Regressor {
    /// Computes something from the prediction of each row.
    fn each<T: Send>(
        &self,
        py: Python<'_>,
        x: Frame,
        of: impl Fn(Prediction) -> Result<T> + Sync,
    ) -> PyResult<Vec<T>> {
        let (found, unknown) = watched(py, |stop| {
            let table = x.table()?;
            let Encoded { x, unknown } = self.0.encode(&table)?;
            let count = table.rows();
            let places = (0..count.next_multiple_of(GROUP)).map(|row| row.min(count - 1));
            let table = table.select(&places.clone().collect::<Vec<_>>());
            let places: Vec<u32> = places.map(|row| row as u32).collect();
            let x = x.index_select(&Tensor::from_vec(places, table.rows(), x.device())?, 0)?;
            let encoded = Encoded { x, unknown };
            let mut found = Vec::with_capacity(count);
            for prediction in self.0.predictions(&table, &encoded)?.take(count) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                found.push(of(prediction?)?);
            }
            Ok((found, encoded.unknown))
        })?;
        for (column, count) in unknown {
            let text =
                format!("{count} rows have a {column:?} that is unknown or unreadable: it counts as none");
            let text = std::ffi::CString::new(text)?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)?;
        }
        Ok(found)
    }

    /// Returns the density of a prediction.
    fn density(&self, prediction: Prediction) -> Result<ebm_tabular::TargetDensity> {
        prediction.targets.into_iter().next().ok_or_else(|| {
            let method = &self.0.fitted().method;
            Error::config(
                "method",
                format!("{method:?} predicts a number and no density; fit another method"),
            )
        })
    }
}

#[pymethods]
impl Regressor {
    /// Fits the table, and returns the fit and the messages about it.
    #[staticmethod]
    fn fit(py: Python<'_>, table: Frame, options: Options) -> PyResult<(Self, Vec<String>)> {
        watched(py, |stop| {
            let (table, config, mut said) = (table.table()?, options.config()?, Vec::new());
            let options = FitOptions { stop, ..options.fit()? };
            let fit =
                TabularRegressor::fit(&table, &options, &config, &mut |text| said.push(text.to_owned()))?;
            Ok((Self(fit), said))
        })
    }

    /// Loads a fit of one target.
    #[staticmethod]
    fn load(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        watched(py, |_| {
            let fit = TabularRegressor::open(&folder)?;
            match fit.fitted().targets.len() {
                1 => Ok(Self(fit)),
                count => {
                    let reason =
                        format!("it predicts {count} targets together; Python reads fits of one target");
                    Err(Error::input(folder.display(), reason))
                }
            }
        })
    }

    /// Writes the fit into an existing folder.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        watched(py, |_| self.0.save(&folder))
    }

    /// Returns the names of the columns of x, in the order of the fit.
    fn columns(&self) -> Vec<String> {
        let target = &self.0.fitted().targets[0].name;
        let columns = self.0.fitted().features.columns().iter();
        let is_input = |column: &&ebm_tabular::Column| {
            column.name != *target && (column.kind != Kind::Unused || column.values != "as an option says")
        };
        columns.filter(is_input).map(|column| column.name.clone()).collect()
    }

    /// Returns target, bounds, method, seed and the settings as JSON.
    fn arguments(&self) -> PyResult<(String, [f64; 2], String, u64, String)> {
        let fitted = self.0.fitted();
        let target = &fitted.targets[0];
        let json = serde_json::to_string(self.0.config());
        let json = json.map_err(|error| raised(Error::config("settings", error)))?;
        Ok((target.name.clone(), target.support.bounds(), fitted.method.clone(), fitted.seed, json))
    }

    /// Returns the largest level whose regions are calibrated; 0 without calibration rows.
    fn largest_level(&self) -> f64 {
        self.0.largest_level()
    }

    /// Returns the mean of each row's density, or the number that a method without a density predicts.
    fn mean<'py>(&self, py: Python<'py>, x: Frame) -> PyResult<Bound<'py, PyBytes>> {
        let means = self.each(py, x, |prediction| Ok(prediction.mean[0]))?;
        Ok(bytes(py, means))
    }

    /// Returns the quantiles of each row, (n, k).
    fn quantiles<'py>(
        &self,
        py: Python<'py>,
        x: Frame,
        probabilities: Vec<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let rows = self.each(py, x, |prediction| {
            let density = self.density(prediction)?;
            probabilities.iter().map(|probability| density.quantile(*probability)).collect::<Result<Vec<_>>>()
        })?;
        Ok(bytes(py, rows.into_iter().flatten()))
    }

    /// Returns the ends of each row's calibrated region, (n, 2).
    fn intervals<'py>(&self, py: Python<'py>, x: Frame, level: f64) -> PyResult<Bound<'py, PyBytes>> {
        let mass = self.0.mass(0, level).map_err(raised)?;
        let rows = self.each(py, x, |prediction| {
            let region = self.density(prediction)?.region(mass)?;
            let ends = |[low, high]: [f64; 2], [from, to]: &[f64; 2]| [low.min(*from), high.max(*to)];
            Ok(region.iter().fold([f64::INFINITY, f64::NEG_INFINITY], ends))
        })?;
        Ok(bytes(py, rows.into_iter().flatten()))
    }

    /// Returns the density of each row.
    fn densities(&self, py: Python<'_>, x: Frame) -> PyResult<Densities> {
        Ok(Densities(self.each(py, x, |prediction| self.density(prediction))?))
    }
}
