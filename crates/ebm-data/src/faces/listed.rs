//! Faces listed in a CSV file, each with its image file and its numbers.

use std::collections::HashSet;
use std::path::Path;

use super::{Face, Faces, Pixels, Tolerance};
use crate::error::{Error, Result};
use crate::files::{read_limited, stays_inside};
use crate::quarantine::{DefectCode, Finding};

/// Largest size of a CSV file, in bytes; the published ones have less than 1 MB.
const MAX_CSV_BYTES: u64 = 64 << 20;
/// Largest plausible angle, in degrees.
const MAX_ANGLE: f32 = 180.;

/// Line of a list.
pub(super) struct Row {
    /// Line number, from 1.
    line: u64,
    pub file: String,
    /// Fields of the requested columns.
    pub numbers: Vec<String>,
}

/// Reads the lines of the list `split`. Its header must have the columns `file` and `columns`; other columns are
/// ignored. Errors call the list `expected`.
pub(super) fn read_rows(split: &Path, columns: &[&str], expected: &'static str) -> Result<Vec<Row>> {
    let bytes = read_limited(split, MAX_CSV_BYTES)?;
    let fail = |error: csv::Error| Error::format(split, expected, error);
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let header = reader.headers().map_err(fail)?.clone();
    let column = |name: &&str| {
        let found: Vec<usize> = (0..header.len()).filter(|&index| header.get(index) == Some(*name)).collect();
        let [index] = found[..] else {
            let header: Vec<_> = header.iter().take(8).collect();
            let count = if found.is_empty() { "no column" } else { "several columns" };
            return Err(Error::format(
                split,
                expected,
                format!("the header {header:?} has {count} {name:?}"),
            ));
        };
        Ok(index)
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
        return Err(Error::format(split, expected, "it lists no file"));
    }
    Ok(rows)
}

/// Makes the faces of `rows`, the lines of the list `split`. The images are in the directory `images`, and
/// `target` reads the numbers of a row.
pub(super) fn faces_of_rows(
    (split, rows): (&Path, &[Row]),
    images: &Path,
    target: impl Fn(&Row) -> std::result::Result<Vec<f32>, String>,
    tolerance: &Tolerance,
) -> Result<Faces> {
    let mut faces = Faces::default();
    let mut seen = HashSet::new();
    let mut read = |row: &Row| {
        let bad = |detail| Finding::new(DefectCode::BadAnnotation, format!("line {}: {detail}", row.line));
        if !stays_inside(&row.file) {
            return Err(bad(format!("{:?} leads out of the directory of the images", row.file)));
        }
        let (target, path) = (target(row).map_err(bad)?, images.join(&row.file));
        if !path.is_file() {
            return Err(Finding::new(DefectCode::MissingFile, path.display().to_string()));
        }
        if !seen.insert(row.file.clone()) {
            return Err(Finding::new(DefectCode::DuplicateId, format!("line {}", row.line)));
        }
        Ok(Face { name: row.file.clone(), pixels: Pixels::File(path), target })
    };
    for row in rows {
        faces.push(split, &row.file, read(row));
    }
    faces.check_tolerance(tolerance)
}

/// Reads the faces that the CSV file `split` lists, in its order, with images in the directory `images`.
///
/// The header of the file has the columns `file` and the `angles`, in degrees, such as `yaw`, `pitch` and `roll`;
/// other columns are ignored. An entry is defective if an angle is no number or beyond ±180, or if its file is
/// listed twice or missing.
///
/// # Errors
/// [`Error::Io`] and [`Error::Data`] for a file that is unreadable, has another format, or is empty;
/// [`Error::TooManyDefects`] above the tolerated fraction.
pub fn load(images: &Path, split: &Path, angles: &[&str], tolerance: &Tolerance) -> Result<Faces> {
    let rows = read_rows(split, angles, "a list of files and angles")?;
    let angle = |text: &String| {
        let angle = text.trim().parse::<f32>().ok().filter(|angle| angle.abs() <= MAX_ANGLE);
        angle.ok_or_else(|| format!("{text:?} is no angle from -180 to 180 degrees"))
    };
    let target = |row: &Row| row.numbers.iter().map(angle).collect();
    faces_of_rows((split, &rows), images, target, tolerance)
}
