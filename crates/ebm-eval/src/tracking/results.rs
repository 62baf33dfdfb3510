//! Result files as the toolkits write them. All of them are read by [`ebm_data::sequences::read_boxes`].

use std::path::{Path, PathBuf};

use ebm_data::files::{read_limited, write_atomic};
use ebm_data::sequences::{Rect, write_boxes};
use serde::{Deserialize, Serialize};

use super::problem::TrackingProblem;
use crate::error::{Error, Result};

/// Half a million frames.
const TIMES_LIMIT: u64 = 16 << 20;

/// A format of result files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// `{name}/{name}_{run}.txt`, the run with three digits, six decimals and commas; times in
    /// `{name}/{name}_time.txt`, a column for each run.
    Got10k,
    /// `{name}.txt` with two decimals and commas, for the server; it has no place for times, which go to
    /// `{name}_time.txt`.
    TrackingNet,
    /// `{name}.txt` with all digits and commas, for pytracking and the toolkits of OTB and LaSOT; times in
    /// `{name}_time.txt`.
    Full,
}

impl ResultFormat {
    /// The file of the boxes of a sequence below `dir`; `run` is counted from 1, and only a part of GOT-10k's
    /// names.
    pub fn result_path(self, dir: &Path, name: &str, run: usize) -> PathBuf {
        match self {
            Self::Got10k => dir.join(name).join(format!("{name}_{run:03}.txt")),
            Self::TrackingNet | Self::Full => dir.join(format!("{name}.txt")),
        }
    }

    /// The file of the times of a sequence below `dir`.
    pub fn time_path(self, dir: &Path, name: &str) -> PathBuf {
        let file = format!("{name}_time.txt");
        match self {
            Self::Got10k => dir.join(name).join(file),
            Self::TrackingNet | Self::Full => dir.join(file),
        }
    }

    fn number(self, value: f64) -> String {
        match self {
            Self::Got10k => format!("{value:.6}"),
            Self::TrackingNet => format!("{value:.2}"),
            Self::Full => value.to_string(),
        }
    }
}

/// Writes the boxes that a tracker predicted on the sequence `name`, atomically; answers where.
///
/// # Errors
/// [`Error::Tracking`] for a box with a number that is not finite, or a negative side; [`Error::Data`] when
/// the file can not be written.
pub fn write_result(
    dir: &Path,
    name: &str,
    boxes: &[Rect],
    format: ResultFormat,
    run: usize,
) -> Result<PathBuf> {
    let path = format.result_path(dir, name, run);
    for (i, &found) in boxes.iter().enumerate() {
        if found.iter().any(|value| !value.is_finite()) || found[2] < 0.0 || found[3] < 0.0 {
            let problem = TrackingProblem::Malformed(i + 1, found);
            return Err(Error::Tracking(path.display().to_string(), problem));
        }
    }
    write_boxes(&path, boxes, ",", |value| format.number(value))?;
    Ok(path)
}

/// Writes the seconds that each frame of the sequence `name` took: `seconds[run][frame]`; answers where.
///
/// # Errors
/// [`Error::Lengths`] when the runs have different numbers of frames; [`Error::Data`] when the file can not
/// be written.
pub fn write_times(dir: &Path, name: &str, seconds: &[&[f64]], format: ResultFormat) -> Result<PathBuf> {
    let expected = seconds.first().map_or(0, |run| run.len());
    if let Some(run) = seconds.iter().find(|run| run.len() != expected) {
        return Err(Error::Lengths { what: "times", found: run.len(), expected });
    }
    let line = |frame: usize| {
        let columns: Vec<String> = seconds.iter().map(|run| format!("{:.8}", run[frame])).collect();
        columns.join(",") + "\n"
    };
    let text: String = (0..expected).map(line).collect();
    let path = format.time_path(dir, name);
    write_atomic(&path, text.as_bytes())?;
    Ok(path)
}

/// The seconds of one run that [`write_times`] wrote to `path`, one for each frame.
///
/// # Errors
/// [`Error::Data`] when the file can not be read; [`Error::Tracking`] with the line that is no number.
pub fn read_times(path: &Path) -> Result<Vec<f64>> {
    let bytes = read_limited(path, TIMES_LIMIT)?;
    let parse = |(line, text): (usize, &str)| {
        text.trim()
            .parse()
            .map_err(|_| Error::Tracking(path.display().to_string(), TrackingProblem::Times(line + 1)))
    };
    String::from_utf8_lossy(&bytes).lines().enumerate().map(parse).collect()
}
