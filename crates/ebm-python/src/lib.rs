//! The module `ebm_regression._native`: fits of `ebm-tabular` for Python.
//!
//! Numbers go both ways as bytes of f64, and the classes of the package turn them into arrays. Every computation runs
//! in a thread of its own without Python's global lock, and stops soon after a KeyboardInterrupt.

mod data;
mod densities;
mod regressor;

use pyo3::pymodule;

/// The module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::densities::Densities;
    #[pymodule_export]
    use crate::regressor::Regressor;
}
