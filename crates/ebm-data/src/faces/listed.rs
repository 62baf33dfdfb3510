//! Faces that a CSV file lists, each with its file and its numbers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{Face, Faces, Pixels, Tolerance};
use crate::error::{Error, Result};
use crate::files::{read_limited, stays_inside};
use crate::quarantine::{DefectCode, Finding};

/// The largest CSV file, in bytes; the published ones have less than 1 MB.
const MAX_CSV_BYTES: u64 = 64 << 20;
/// The largest angle that is believed, in degrees.
const MAX_ANGLE: f32 = 180.;

/// A line of a list.
pub(super) struct Row {
    /// Counted from 1.
    pub line: u64,
    pub file: String,
    /// The fields of the columns that were asked for.
    pub numbers: Vec<String>,
}

impl Row {
    /// Why its name is none of a file below the directory of the images.
    pub fn check_name(&self) -> std::result::Result<(), Finding> {
        if stays_inside(&self.file) {
            return Ok(());
        }
        Err(Finding::new(DefectCode::BadAnnotation, format!("line {}: {:?}", self.line, self.file)))
    }

    /// Its file in the directory `images`; with `check` only if it is there.
    pub fn path(&self, images: &Path, check: bool) -> std::result::Result<PathBuf, Finding> {
        let path = images.join(&self.file);
        if check && !path.is_file() {
            return Err(Finding::new(DefectCode::MissingFile, path.display().to_string()));
        }
        Ok(path)
    }
}

impl Faces {
    /// Takes what `check` says of each row of the list `split`; a file that was listed before is a defect.
    pub(super) fn push_rows(
        &mut self,
        split: &Path,
        rows: &[Row],
        check: impl Fn(&Row) -> std::result::Result<Face, Finding>,
    ) {
        let mut seen = HashSet::new();
        for row in rows {
            let mut outcome = check(row);
            if outcome.is_ok() && !seen.insert(row.file.as_str()) {
                outcome = Err(Finding::new(DefectCode::DuplicateId, format!("line {}", row.line)));
            }
            self.push(split, &row.file, outcome);
        }
    }
}

/// The lines of the list `split`, which is `expected` to be what errors say: it has a header with the columns `file` and
/// `columns`; others are ignored.
pub(super) fn read_rows(split: &Path, columns: &[&str], expected: &'static str) -> Result<Vec<Row>> {
    let bytes = read_limited(split, MAX_CSV_BYTES)?;
    let fail = |error: csv::Error| not_a_list(split, expected, error.to_string());
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let header = reader.headers().map_err(fail)?.clone();
    let column = |name: &&str| {
        let mut found = header.iter().enumerate().filter(|(_, field)| field == name);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (found, _) => {
                let count = if found.is_none() { "no column" } else { "two columns" };
                let header: Vec<_> = header.iter().take(8).collect();
                Err(not_a_list(split, expected, format!("the header {header:?} has {count} {name:?}")))
            }
        }
    };
    let file = column(&"file")?;
    let numbers = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(fail)?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |index: usize| record.get(index).unwrap_or_default().to_owned();
        rows.push(Row { line, file: field(file), numbers: numbers.iter().copied().map(field).collect() });
    }
    if rows.is_empty() {
        return Err(not_a_list(split, expected, "it lists no file".to_owned()));
    }
    Ok(rows)
}

/// The error of a file that is no list of this kind.
pub(super) fn not_a_list(path: &Path, expected: &'static str, detail: String) -> Error {
    Error::format(path, expected, detail)
}

/// Reads the faces that the CSV file `split` lists, with images in the directory `images`, in the list's order.
///
/// The file has a header with the columns `file` and the `angles`, in degrees, such as `yaw`, `pitch` and `roll`; others
/// are ignored. An entry is defective if an angle is no number or beyond ±180, or its file is listed twice or not there.
///
/// # Errors
/// [`Error::Io`], [`Error::FileTooLarge`] and [`Error::Format`] for a file that is not readable, no such list, or empty;
/// [`Error::TooManyDefects`] above the tolerated fraction.
pub fn load(images: &Path, split: &Path, angles: &[&str], tolerance: &Tolerance) -> Result<Faces> {
    let mut collected = Faces::default();
    let rows = read_rows(split, angles, "a list of files and angles")?;
    collected.push_rows(split, &rows, |row| {
        row.check_name()?;
        let angle = |text: &String| {
            let angle = text.trim().parse::<f32>().ok().filter(|angle| angle.abs() <= MAX_ANGLE);
            angle.ok_or_else(|| {
                let detail = format!("line {}: {text:?} is no angle from -180 to 180 degrees", row.line);
                Finding::new(DefectCode::BadAnnotation, detail)
            })
        };
        let target = row.numbers.iter().map(angle).collect::<std::result::Result<_, _>>()?;
        let pixels = Pixels::File(row.path(images, true)?);
        Ok(Face { name: row.file.clone(), pixels, target })
    });
    collected.within(tolerance)
}
