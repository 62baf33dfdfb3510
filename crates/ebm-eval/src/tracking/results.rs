//! Result files in the formats of the toolkits, and the published datasets for measuring trackers.
//! [`ebm_data::sequences::read_boxes`] reads all of these formats.

use std::path::{Path, PathBuf};

use ebm_data::files::{read_limited, write_atomic};
use ebm_data::sequences::{Dataset, Rect, SequenceOptions, Sequences, write_boxes};
use serde::{Deserialize, Serialize};

use super::convention::Convention;
use crate::error::{Error, Result, TrackingProblem};

/// Largest size of a file of times, in bytes: enough for half a million frames.
const TIMES_LIMIT: u64 = 16 << 20;

/// A format of result files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// `{name}/{name}_{run}.txt`, the run with three digits, six decimals and commas; times in
    /// `{name}/{name}_time.txt`, a column for each run.
    Got10k,
    /// `{name}.txt` with two decimals and commas, for TrackingNet's server; times, which the server does not take, in
    /// `{name}_time.txt`.
    TrackingNet,
    /// `{name}.txt` with all digits and commas, for pytracking and the toolkits of OTB and LaSOT; times in
    /// `{name}_time.txt`.
    Full,
}

impl ResultFormat {
    /// Returns the path below `dir` of the boxes of the sequence `name`. `run` is counted from 1, and only the names
    /// of GOT-10k's files contain it.
    pub fn result_path(self, dir: &Path, name: &str, run: usize) -> PathBuf {
        match self {
            Self::Got10k => dir.join(name).join(format!("{name}_{run:03}.txt")),
            Self::TrackingNet | Self::Full => dir.join(format!("{name}.txt")),
        }
    }

    /// Returns the path below `dir` of the times of the sequence `name`.
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

/// Writes the boxes that a tracker predicted on the sequence `name`, atomically, and returns the path.
///
/// # Errors
/// [`Error::Tracking`] for a box with a number that is not finite or a negative side; [`Error::Data`] if the
/// file cannot be written.
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

/// Writes the seconds that each frame of the sequence `name` took, `seconds[run][frame]`, and returns the path.
///
/// # Errors
/// [`Error::Lengths`] if the runs have different numbers of frames; [`Error::Data`] if the file cannot be
/// written.
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

/// Reads the seconds of one run, one for each frame, from a file that [`write_times`] wrote.
///
/// # Errors
/// [`Error::Data`] if the file cannot be read; [`Error::Tracking`] with the first line that is no number.
pub fn read_times(path: &Path) -> Result<Vec<f64>> {
    let bytes = read_limited(path, TIMES_LIMIT)?;
    let parse = |(line, text): (usize, &str)| {
        text.trim()
            .parse()
            .map_err(|_| Error::Tracking(path.display().to_string(), TrackingProblem::Times(line + 1)))
    };
    String::from_utf8_lossy(&bytes).lines().enumerate().map(parse).collect()
}

/// Test set of a tracking benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestSet {
    /// OTB-100 (OTB-2015).
    Otb100,
    /// UAV123.
    Uav123,
    /// The 280 test sequences of LaSOT.
    Lasot,
    /// The 180 validation sequences of GOT-10k.
    Got10kVal,
    /// The 180 test sequences of GOT-10k. Their boxes are only on its server.
    Got10kTest,
    /// The 511 test videos of TrackingNet. Their boxes are only on its server.
    TrackingNet,
    /// The user's own sequences, laid out as OTB's are, with all their boxes.
    Own,
}

/// Boxes of a sequence in one run, and the seconds that each frame took.
#[derive(Clone, Copy, Debug)]
pub struct RunResult<'a> {
    /// Name of the sequence.
    pub name: &'a str,
    /// Box of each frame.
    pub boxes: &'a [Rect],
    /// Time of each frame in seconds.
    pub seconds: &'a [f64],
}

impl TestSet {
    /// All test sets with their names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("otb100", Self::Otb100),
        ("uav123", Self::Uav123),
        ("lasot", Self::Lasot),
        ("got10k", Self::Got10kVal),
        ("got10k-test", Self::Got10kTest),
        ("trackingnet", Self::TrackingNet),
        ("other", Self::Own),
    ];

    /// Returns the name of the test set.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, set)| *set == self).map_or("other", |(name, _)| name)
    }

    /// Returns the test set with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, set)| set)
    }

    /// Loads the test set's sequences from the folder `root`, laid out as [`Dataset`] says.
    /// Missing and defective sequences are listed beside the others.
    ///
    /// # Errors
    /// Fails if `root` has none of the sequences, or cannot be read.
    pub fn load(self, root: &Path) -> Result<Sequences> {
        let dataset = match self {
            Self::Otb100 => Dataset::Otb100,
            Self::Uav123 => Dataset::Uav123,
            Self::Lasot => Dataset::LasotTest,
            Self::Got10kVal => Dataset::Got10kVal,
            Self::Got10kTest => Dataset::Got10kTest,
            Self::TrackingNet => Dataset::TrackingNetTest,
            Self::Own => Dataset::Own,
        };
        Ok(dataset.load(root, &SequenceOptions::benchmark())?)
    }

    /// Returns the convention for the figures of this test set. TrackingNet's official figures come from its server.
    pub fn convention(self) -> Convention {
        match self {
            Self::Otb100 | Self::TrackingNet | Self::Own => Convention::pytracking(),
            Self::Uav123 => Convention::pytracking_uav(),
            Self::Lasot => Convention::pytracking_lasot(),
            Self::Got10kVal | Self::Got10kTest => Convention::got10k(),
        }
    }

    /// Returns whether only a server can compute the figures, because each sequence's first box alone is published.
    pub fn is_scored_by_a_server(self) -> bool {
        matches!(self, Self::Got10kTest | Self::TrackingNet)
    }

    /// Writes the results of several runs below `folder`, which should be empty, as GOT-10k's toolkit and server or
    /// TrackingNet's server expect them. For other datasets it writes nothing, since their toolkits read
    /// [`ResultFormat::Full`].
    ///
    /// | dataset | files |
    /// |---|---|
    /// | GOT-10k | `NAME/NAME_001.txt`, a file for each run, and `NAME/NAME_time.txt` |
    /// | TrackingNet | `run_001/NAME.txt`, a folder for each run: the server takes one |
    ///
    /// Returns the folders to upload; a server takes the files of each as one archive.
    ///
    /// # Errors
    /// Fails if a box is malformed or a file cannot be written.
    pub fn write_submission(self, folder: &Path, runs: &[Vec<RunResult<'_>>]) -> Result<Vec<PathBuf>> {
        let format = match self {
            Self::Got10kVal | Self::Got10kTest => ResultFormat::Got10k,
            Self::TrackingNet => ResultFormat::TrackingNet,
            _ => return Ok(Vec::new()),
        };
        let of_run = |run: usize| match format {
            ResultFormat::TrackingNet => folder.join(format!("run_{:03}", run + 1)),
            _ => folder.to_owned(),
        };
        for (run, results) in runs.iter().enumerate() {
            for RunResult { name, boxes, .. } in results {
                write_result(&of_run(run), name, boxes, format, run + 1)?;
            }
        }
        if format == ResultFormat::TrackingNet {
            return Ok((0..runs.len()).map(of_run).collect());
        }
        // One file holds the times of all runs that have the sequence.
        for RunResult { name, .. } in runs.first().into_iter().flatten() {
            let of = |run: &Vec<RunResult<'_>>| {
                run.iter().find(|one| one.name == *name).map(|one| one.seconds.to_vec())
            };
            let seconds: Vec<Vec<f64>> = runs.iter().filter_map(of).collect();
            let seconds: Vec<&[f64]> = seconds.iter().map(Vec::as_slice).collect();
            write_times(folder, name, &seconds, format)?;
        }
        Ok(vec![folder.to_owned()])
    }
}
