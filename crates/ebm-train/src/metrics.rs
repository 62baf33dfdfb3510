//! Metrics log: one JSON object per line, appended during training.

use crate::error::{Error, Result};
use crate::files::{MAX_BYTES, io_error, read_if_exists};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Line of the log. JSON has no NaN: a value that is not finite is written as `null` and read as `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricsRecord {
    /// Number of the step, from 0.
    pub step: usize,
    /// Loss of the step.
    pub loss: Option<f64>,
    /// Norm of the gradient.
    pub grad_norm: Option<f64>,
    /// `true` if the update was skipped because the loss or the norm was not finite.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Other reported values of the task, by name.
    #[serde(default)]
    pub scalars: BTreeMap<String, Option<f64>>,
}

/// Open metrics log. Each record is one write of one whole line. An incomplete line of a killed process or of a
/// full disk is cut off.
#[derive(Debug)]
pub struct MetricsLog {
    path: PathBuf,
    file: File,
    len: u64,
}

impl MetricsLog {
    /// Opens or creates a log. It is cut off at `len` bytes, the length that a checkpoint recorded, and then at the
    /// last whole line; [`u64::MAX`] keeps everything. [`bytes`](Self::bytes) shows whether the log was shorter.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: impl Into<PathBuf>, len: u64) -> Result<Self> {
        let path = path.into();
        let open = || {
            ebm_base::files::check_output(&path)?;
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            let text = std::fs::read(&path)?;
            let limit = usize::try_from(len).map_or(text.len(), |len| len.min(text.len()));
            let whole = text[..limit].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            file.set_len(whole as u64)?;
            io::Result::Ok((file, whole as u64))
        };
        let (file, len) = open().map_err(|source| io_error(&path, "write", 0, source))?;
        Ok(Self { path, file, len })
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Appends one record.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`]. The log then still ends with the last whole line.
    pub fn append(&mut self, record: &MetricsRecord) -> Result<()> {
        let mut line = serde_json::to_vec(record).map_err(Error::json(&self.path))?;
        line.push(b'\n');
        let needed = line.len() as u64;
        if let Err(source) = self.file.write_all(&line) {
            // The error of the write is the one to report; opening the log again also cuts an incomplete line.
            let _ = self.file.set_len(self.len);
            return Err(io_error(&self.path, "write", needed, source));
        }
        self.len += needed;
        Ok(())
    }

    /// Waits until the log is on the disk.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_all().map_err(|source| io_error(&self.path, "synchronise", 0, source))
    }
}

/// Reads a log; empty if there is none. An incomplete last line is left out, because a process may still be
/// writing it or may have been killed.
///
/// # Errors
/// [`Error::File`] for any other malformed line, [`Error::Io`].
pub fn read_metrics(path: &Path) -> Result<Vec<MetricsRecord>> {
    let text = read_if_exists(path, MAX_BYTES)?.unwrap_or_default();
    let whole = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    let lines = text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines
        .enumerate()
        .map(|(index, line)| {
            let place = PathBuf::from(format!("{}, line {}", path.display(), index + 1));
            serde_json::from_slice(line)
                .map_err(|error| Error::File(place, format!("{error}; delete the line")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: usize) -> MetricsRecord {
        let scalars =
            BTreeMap::from([("lr".to_string(), Some(0.1 / (step + 1) as f64)), ("nan".to_string(), None)]);
        MetricsRecord { step, loss: Some(1.0 / 3.0), grad_norm: None, skipped: step == 1, scalars }
    }

    fn log_of(path: &Path, steps: std::ops::Range<usize>) -> u64 {
        let mut log = MetricsLog::open(path, u64::MAX).unwrap();
        for step in steps {
            log.append(&record(step)).unwrap();
        }
        log.sync().unwrap();
        log.bytes()
    }

    #[test]
    fn records_read_back_and_are_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        assert!(read_metrics(&path).unwrap().is_empty());
        log_of(&path, 0..2);
        let len = log_of(&path, 2..3);
        assert_eq!(len, std::fs::metadata(&path).unwrap().len());
        assert_eq!(read_metrics(&path).unwrap(), [record(0), record(1), record(2)]);
    }

    #[test]
    fn a_log_cut_at_any_byte_keeps_its_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        log_of(&path, 0..3);
        let text = std::fs::read(&path).unwrap();
        let mut wholes = std::collections::BTreeSet::new();
        for cut in 0..=text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            let whole = text[..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(read_metrics(&path).unwrap().len(), whole);
            log_of(&path, 7..8);
            let records = read_metrics(&path).unwrap();
            assert_eq!(records.len(), whole + 1);
            assert_eq!(records.last(), Some(&record(7)));
            wholes.insert(whole);
        }
        assert_eq!(wholes.len(), 4);
    }

    #[test]
    fn opening_at_a_length_forgets_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let two = log_of(&path, 0..2);
        let five = log_of(&path, 2..5);
        assert_eq!(MetricsLog::open(&path, two).unwrap().bytes(), two);
        assert_eq!(read_metrics(&path).unwrap(), [record(0), record(1)]);
        assert_eq!(MetricsLog::open(&path, five).unwrap().bytes(), two);
        assert_eq!(MetricsLog::open(&path, 0).unwrap().bytes(), 0);
    }

    #[test]
    fn a_malformed_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        log_of(&path, 0..2);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.insert_str(text.find('\n').unwrap() + 1, "{oops}\n");
        std::fs::write(&path, text).unwrap();
        let error = read_metrics(&path).unwrap_err();
        assert!(error.to_string().contains("line 2: "), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [victim, path] = ["victim", "metrics.jsonl"].map(|name| dir.path().join(name));
        std::fs::write(&victim, "no whole line").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(MetricsLog::open(&path, u64::MAX).unwrap_err().to_string().contains("a symbolic link"));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "no whole line");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let Some(full) = ebm_testing::system::full_device() else { return };
        let file = OpenOptions::new().append(true).open(full).unwrap();
        let mut log = MetricsLog { path: full.into(), file, len: 0 };
        let error = log.append(&record(0)).unwrap_err();
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        assert_eq!(log.bytes(), 0);
    }
}
