//! Data sets for comparing methods.

mod generated;

use std::path::Path;

pub use generated::Generated;

use crate::{Error, Result, Table};

/// A data set with its splits into rows to learn from and rows for the test.
pub struct BenchmarkSet {
    /// All rows, with inputs and targets.
    pub table: Table,
    /// Columns to predict.
    pub targets: Vec<String>,
    /// Rows to learn from and rows for the test, of each split.
    pub splits: Vec<[Vec<usize>; 2]>,
    /// log p(y | x) of each row, if the density that generated them is known.
    pub truth: Option<Vec<f64>>,
}

/// Name of the target's column; the others are x1, x2 …
const TARGET: &str = "y";

impl BenchmarkSet {
    /// Reads a UCI data set with the splits of Gal and Ghahramani (2016), in the layout of their repository: the folder
    /// `data` of `set` holds `data.txt`, `index_features.txt`, `index_target.txt`, and the `index_train_*` and
    /// `index_test_*` of at least the first `splits` splits.
    ///
    /// # Errors
    /// [`Error::Input`] for a file with other contents, or an error if a file cannot be read.
    pub fn uci(set: &Path, splits: usize) -> Result<Self> {
        let folder = set.join("data");
        let lines = |name: &str| {
            let path = folder.join(name);
            let fail = |reason: String| Error::input(path.display(), reason);
            let text = ebm_data::files::read_limited(&path, crate::MAX_BYTES)?;
            let text = String::from_utf8(text).map_err(|error| fail(error.to_string()))?;
            Ok::<_, Error>(text.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let places = |name: &str| {
            let fail = |word: &str| {
                Error::input(folder.join(name).display(), format!("{word:?} is no place of a row or column"))
            };
            let read = |word: &str| {
                let place: f64 = word.parse().map_err(|_| fail(word))?;
                if place >= 0.0 && place.fract() == 0.0 { Ok(place as usize) } else { Err(fail(word)) }
            };
            let lines = lines(name)?;
            lines.iter().flat_map(|line| line.split_whitespace()).map(read).collect::<Result<Vec<usize>>>()
        };
        let features = places("index_features.txt")?;
        let target = places("index_target.txt")?;
        let name = folder.join("data.txt").display().to_string();
        let names = (1..=features.len()).map(|k| format!("x{k},"));
        let mut text = names.collect::<String>() + TARGET + "\n";
        for line in lines("data.txt")?.iter().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for (count, &place) in features.iter().chain(&target).enumerate() {
                let word = words.get(place).ok_or_else(|| {
                    let reason =
                        format!("a row has {} numbers, and number {} is named", words.len(), place + 1);
                    Error::input(&name, reason)
                })?;
                text += word;
                text.push(if count < features.len() { ',' } else { '\n' });
            }
        }
        let table = Table::parse(&name, &text)?;
        let split = |k: usize| {
            let both = [places(&format!("index_train_{k}.txt"))?, places(&format!("index_test_{k}.txt"))?];
            match both.iter().flatten().find(|&&row| row >= table.rows()) {
                Some(row) => {
                    Err(Error::input(&name, format!("split {k} names row {row} of {}", table.rows())))
                }
                None => Ok(both),
            }
        };
        let splits = (0..splits).map(split).collect::<Result<Vec<_>>>()?;
        Ok(Self { table, targets: vec![TARGET.to_owned()], splits, truth: None })
    }
}
