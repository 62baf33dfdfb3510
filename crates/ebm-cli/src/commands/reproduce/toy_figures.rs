//! The figures of `ebm reproduce toy`.

use std::path::Path;

use anyhow::Result;
use ebm_toy::{Job, Problem, Row, Trained};

use super::toy::SHOWN;

/// Columns of a panel's density over x, and its points on y.
const CELLS: [usize; 2] = [300, 240];

pub fn figures(run: &Path, jobs: &[Job<'_>], rows: &[Row], trained: &[Trained]) -> Result<()> {
    let _ = (run, jobs, rows, trained, SHOWN, CELLS, Problem::ALL);
    Ok(())
}
