//! Result files as the toolkits write them, all of which [`ebm_data::sequences::read_boxes`] reads, and the published
//! datasets that trackers are measured on.

use std::path::{Path, PathBuf};

use ebm_data::files::{read_limited, write_atomic};
use ebm_data::sequences::{Dataset, Rect, SequenceOptions, Sequences, write_boxes};
use serde::{Deserialize, Serialize};

use super::convention::Convention;
use crate::error::{Error, Result, TrackingProblem};

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

/// A dataset, or the part of it that is for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestSet {
    /// OTB-100 (OTB-2015).
    Otb100,
    /// UAV123.
    Uav123,
    /// LaSOT's 280 sequences for tests.
    Lasot,
    /// GOT-10k's 180 sequences for validation.
    Got10kVal,
    /// GOT-10k's 180 sequences for tests, whose boxes its server keeps.
    Got10kTest,
    /// TrackingNet's 511 videos for tests, whose boxes its server keeps.
    TrackingNet,
    /// Sequences of one's own, laid out as OTB's are, with all their boxes.
    Own,
}

/// The boxes of a sequence in one run, and the seconds that each frame took.
#[derive(Clone, Copy, Debug)]
pub struct RunResult<'a> {
    /// The sequence.
    pub name: &'a str,
    /// A box for each frame.
    pub boxes: &'a [Rect],
    /// One for each frame.
    pub seconds: &'a [f64],
}

impl TestSet {
    /// All of them by name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("otb100", Self::Otb100),
        ("uav123", Self::Uav123),
        ("lasot", Self::Lasot),
        ("got10k", Self::Got10kVal),
        ("got10k-test", Self::Got10kTest),
        ("trackingnet", Self::TrackingNet),
        ("other", Self::Own),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, set)| *set == self).map_or("other", |(name, _)| name)
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, set)| set)
    }

    /// Its sequences in the folder `root`, laid out as [`Dataset`] says.
    /// Those that are not there or defective are listed beside the others.
    ///
    /// # Errors
    /// When `root` has none of them, or can not be read.
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

    /// How its figures are computed; TrackingNet's own come from its server.
    pub fn convention(self) -> Convention {
        match self {
            Self::Otb100 | Self::TrackingNet | Self::Own => Convention::pytracking(),
            Self::Uav123 => Convention::pytracking_uav(),
            Self::Lasot => Convention::pytracking_lasot(),
            Self::Got10kVal | Self::Got10kTest => Convention::got10k(),
        }
    }

    /// Whether only a server can compute them, because no box but each first is published.
    pub fn is_scored_by_a_server(self) -> bool {
        matches!(self, Self::Got10kTest | Self::TrackingNet)
    }

    /// Writes the results of several runs below `folder`, which should be empty, as GOT-10k's toolkit and server or
    /// TrackingNet's server expect them; for the other datasets nothing, since their toolkits read
    /// [`ResultFormat::Full`]:
    ///
    /// | dataset | files |
    /// |---|---|
    /// | GOT-10k | `NAME/NAME_001.txt`, a file for each run, and `NAME/NAME_time.txt` |
    /// | TrackingNet | `run_001/NAME.txt`, a folder for each run: the server takes one |
    ///
    /// Answers the folders whose files a server takes as an archive, each alone.
    ///
    /// # Errors
    /// When a box is none, or a file can not be written.
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
        // One file has the times of all runs that have the sequence.
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
