//! Learning curves: refinement of boxes in held-out images.

use std::path::{Path, PathBuf};

use ebm_data::files::{read_settings, write_atomic};
use ebm_eval::Summary;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Accuracy of a module's refinement on one set of held-out images, with one perturbed box for each crop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutRow {
    /// Name of the set.
    pub set: String,
    /// Key of the method.
    pub method: String,
    /// Seed.
    pub seed: u64,
    /// Number of pairs that the module was trained on.
    pub pairs: usize,
    /// Factor of the configured step lengths.
    pub step_factor: f64,
    /// Number of boxes.
    pub boxes: usize,
    /// Mean overlap of the perturbed boxes with the annotated ones.
    pub before: f64,
    /// Standard error of `before`.
    pub before_error: Option<f64>,
    /// Mean overlap of the refined boxes with the annotated ones.
    pub after: f64,
    /// Standard error of `after`.
    pub after_error: Option<f64>,
    /// Standard error of the mean gain, paired by box.
    pub gain_error: Option<f64>,
}

impl HeldOutRow {
    /// Computes the row of a module from the overlap of each box before and after refinement.
    ///
    /// # Errors
    /// When there are no boxes.
    pub(super) fn new(
        set: &str,
        method: &str,
        seed: u64,
        pairs: usize,
        step_factor: f64,
        overlaps: &[[f64; 2]],
    ) -> Result<Self> {
        let of = |value: fn(&[f64; 2]) -> f64| Summary::new(&overlaps.iter().map(value).collect::<Vec<_>>());
        let (before, after) = (of(|pair| pair[0])?, of(|pair| pair[1])?);
        Ok(Self {
            set: set.to_owned(),
            method: method.to_owned(),
            seed,
            pairs,
            step_factor,
            boxes: overlaps.len(),
            before: before.mean,
            before_error: before.standard_error(),
            after: after.mean,
            after_error: after.standard_error(),
            gain_error: of(|pair| pair[1] - pair[0])?.standard_error(),
        })
    }
}

/// The rows of a run and their file, `held_out.csv`.
pub(super) struct HeldOutRecord {
    path: PathBuf,
    /// All rows.
    pub rows: Vec<HeldOutRow>,
}

impl HeldOutRecord {
    /// Opens the record of the run in the folder `run`. A missing file is an empty record.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn open(run: &Path) -> Result<Self> {
        let path = run.join("held_out.csv");
        let text = if path.exists() { read_settings(&path)? } else { String::new() };
        let rows: csv::Result<_> = csv::Reader::from_reader(text.as_bytes()).into_deserialize().collect();
        Ok(Self { rows: rows.map_err(|error| input_error(&path, &error))?, path })
    }

    /// Returns the rows of a module after `pairs` pairs.
    pub fn rows_of(&self, method: &str, seed: u64, pairs: usize) -> impl Iterator<Item = &HeldOutRow> {
        self.rows
            .iter()
            .filter(move |row| (row.method.as_str(), row.seed, row.pairs) == (method, seed, pairs))
    }

    /// Adds rows to the file, all or none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, rows: Vec<HeldOutRow>) -> Result<()> {
        self.rows.extend(rows);
        let mut file = csv::Writer::from_writer(Vec::new());
        for row in &self.rows {
            file.serialize(row).map_err(|error| input_error(&self.path, &error))?;
        }
        let bytes = file.into_inner().map_err(|error| input_error(&self.path, error.error()))?;
        Ok(write_atomic(&self.path, &bytes)?)
    }
}

fn input_error(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::input(path.display(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_means_with_standard_errors_and_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = HeldOutRecord::open(dir.path()).unwrap();
        let row = |set, pairs, overlaps| HeldOutRow::new(set, "ebm", 1, pairs, 0.25, overlaps);
        // Gains of 0.1 and 0.3: a mean of 0.2 with a deviation of √0.02, over √2.
        let first = row("val, persons", 32, &[[0.5, 0.6], [0.3, 0.6]]).unwrap();
        assert!((first.before - 0.4).abs() < 1e-12 && (first.after - 0.6).abs() < 1e-12);
        assert!((first.gain_error.unwrap() - 0.1).abs() < 1e-12 && first.after_error.unwrap() < 1e-12);
        let one = row("coco", 64, &[[0.5, 0.7]]).unwrap();
        record.add(vec![first.clone()]).unwrap();
        record.add(vec![one.clone()]).unwrap();
        let read = HeldOutRecord::open(dir.path()).unwrap();
        assert_eq!(read.rows_of("ebm", 1, 32).collect::<Vec<_>>(), [&first]);
        assert_eq!((read.rows_of("atom", 1, 32).count(), read.rows), (0, vec![first, one]));
        assert!(row("coco", 32, &[]).is_err());
    }
}
