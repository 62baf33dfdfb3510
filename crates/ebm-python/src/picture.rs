//! Images and boxes between Python and the crates of tasks.

use std::path::PathBuf;

use ebm_data::{Image, decode::read_upright};
use ebm_experiment::Result;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::data::watched;

/// An RGB image: rows, columns and samples (rows, columns, 3).
#[derive(FromPyObject)]
pub struct Picture(usize, usize, PyBackedBytes);

impl Picture {
    pub fn image(&self) -> Result<Image> {
        let Self(rows, columns, samples) = self;
        Ok(Image::new(*columns, *rows, samples.to_vec())?)
    }
}

/// Reads an image file, turned as its orientation tag says: rows, columns and samples.
#[pyfunction]
pub fn read_image(py: Python<'_>, path: PathBuf) -> PyResult<(usize, usize, Bound<'_, PyBytes>)> {
    let image = watched(py, |_| Ok(read_upright(&path)?))?;
    Ok((image.height, image.width, PyBytes::new(py, &image.pixels)))
}

/// Returns `[x, y, width, height]` of the box `[x0, y0, x1, y1]`.
pub fn rect([x0, y0, x1, y1]: [f64; 4]) -> [f64; 4] {
    [x0, y0, x1 - x0, y1 - y0]
}
