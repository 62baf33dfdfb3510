//! Boxes of images that no module learns from: the learning curves.

use std::path::{Path, PathBuf};

use ebm_data::files::{read_settings, write_atomic};
use ebm_eval::Summary;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How a module refines the boxes of one set of held-out images, one perturbed box for each crop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutRow {
    /// The set's name.
    pub set: String,
    /// The method's key.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// Pairs that the module has learned from.
    pub pairs: usize,
    /// The factor of the configured step lengths.
    pub step_factor: f64,
    /// Boxes.
    pub boxes: usize,
    /// The mean overlap of the perturbed boxes with the annotated ones …
    pub before: f64,
    /// … with its standard error.
    pub before_error: Option<f64>,
    /// The mean overlap of the refined boxes …
    pub after: f64,
    /// … with its standard error.
    pub after_error: Option<f64>,
    /// The standard error of the mean gain, box by box.
    pub gain_error: Option<f64>,
}

impl HeldOutRow {
    /// The row of a module whose boxes overlap so much, each before and after refinement.
    ///
    /// # Errors
    /// Without boxes.
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

/// The rows of a run, in its file `held_out.csv`.
pub(super) struct HeldOutRecord {
    path: PathBuf,
    /// All of them.
    pub rows: Vec<HeldOutRow>,
}

impl HeldOutRecord {
    /// The record of the run in the folder `run`.
    ///
    /// # Errors
    /// When it is there and can not be read.
    pub fn open(run: &Path) -> Result<Self> {
        let path = run.join("held_out.csv");
        let text = if path.exists() { read_settings(&path)? } else { String::new() };
        let rows: csv::Result<_> = csv::Reader::from_reader(text.as_bytes()).into_deserialize().collect();
        Ok(Self { rows: rows.map_err(|error| input_error(&path, &error))?, path })
    }

    /// The rows of a module after so many pairs.
    pub fn rows_of(&self, method: &str, seed: u64, pairs: usize) -> impl Iterator<Item = &HeldOutRow> {
        self.rows
            .iter()
            .filter(move |row| (row.method.as_str(), row.seed, row.pairs) == (method, seed, pairs))
    }

    /// Adds rows, all or none of them.
    ///
    /// # Errors
    /// When the file can not be written.
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
