//! The module `ebm_regression._native`: fits of `ebm-tabular`, and trained networks for images, for Python.
//!
//! Numbers of tables go both ways as bytes of f64, and the classes of the package turn them into arrays. Every
//! computation runs in a thread of its own without Python's global lock. A fit stops soon after a KeyboardInterrupt.

mod ages;
mod boxes;
mod data;
mod densities;
mod picture;
mod regressor;
mod tracks;

use pyo3::pymodule;

/// The module.
#[pymodule]
mod _native {
    #[pymodule_export]
    const MIN_CALIBRATION: usize = ebm_tabular::MIN_CALIBRATION;
    #[pymodule_export]
    use crate::ages::AgeEstimator;
    #[pymodule_export]
    use crate::boxes::{BoxRefiner, Detector};
    #[pymodule_export]
    use crate::densities::Densities;
    #[pymodule_export]
    use crate::picture::read_image;
    #[pymodule_export]
    use crate::regressor::Regressor;
    #[pymodule_export]
    use crate::tracks::{Track, Tracker};
}
