//! Ages of faces.

use std::path::PathBuf;

use ebm_data::faces::crop_face;
use ebm_face::Estimate;
use ebm_face::prediction::FACE_CROP;
use pyo3::prelude::*;

use crate::data::watched;
use crate::picture::{Picture, rect};

/// An estimator of ages.
#[pyclass(frozen)]
pub struct AgeEstimator(ebm_face::AgeEstimator);

/// An age in years.
#[derive(IntoPyObject)]
pub struct Age {
    value: f64,
    interval: [f64; 2],
    /// Points of the density.
    ages: Vec<f64>,
    log_prob: Vec<f64>,
}

#[pymethods]
impl AgeEstimator {
    /// Opens networks, by default the bundled ones.
    #[new]
    fn new(py: Python<'_>, run: Option<PathBuf>) -> PyResult<Self> {
        let open = || run.map_or_else(ebm_face::AgeEstimator::bundled, ebm_face::AgeEstimator::open);
        watched(py, |_| Ok(Self(open()?)))
    }

    /// Estimates the age of the face in a box, or of the face that fills the picture.
    fn estimate(&self, py: Python<'_>, picture: Picture, bbox: Option<[f64; 4]>) -> PyResult<Age> {
        watched(py, |_| {
            let mut image = picture.image()?;
            if let Some(bbox) = bbox {
                image = crop_face(&image, rect(bbox), FACE_CROP)?;
            }
            let Estimate { value, interval, density } = self.0.estimate(&image)?;
            let (ages, log_prob) = (density.points().to_vec(), density.log_prob_values().to_vec());
            Ok(Age { value, interval, ages, log_prob })
        })
    }
}
