//! The published datasets that trackers are measured on.

use std::path::{Path, PathBuf};

use ebm_data::sequences::{Dataset, Rect, SequenceOptions, Sequences};

use super::convention::Convention;
use super::results::{ResultFormat, write_result, write_times};
use crate::error::Result;

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
    /// Its sequences in the folder `root`, laid out as [`Dataset`] says. Those that are not there or defective are listed
    /// beside the others.
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

    /// How its figures are computed.
    pub fn convention(self) -> Convention {
        match self {
            Self::Otb100 | Self::Own => Convention::pytracking(),
            Self::Uav123 => Convention::pytracking_uav(),
            Self::Lasot => Convention::pytracking_lasot(),
            Self::Got10kVal | Self::Got10kTest => Convention::got10k(),
            Self::TrackingNet => Convention::trackingnet(),
        }
    }

    /// Whether only a server can compute them, because no box but each first is published.
    pub fn is_scored_by_a_server(self) -> bool {
        matches!(self, Self::Got10kTest | Self::TrackingNet)
    }

    /// Writes the results of several runs below `folder`, which should be empty, as its server or toolkit
    /// expects them:
    ///
    /// | dataset | files |
    /// |---|---|
    /// | GOT-10k | `NAME/NAME_001.txt`, a file for each run, and `NAME/NAME_time.txt` |
    /// | TrackingNet | `run_001/NAME.txt`, a folder for each run: the server takes one |
    /// | others | `ebm_000/NAME.txt` and `NAME_time.txt`, a folder for each run, as pytracking's `results/TRACKER/PARAMETERS_000`, with its names of sequences: `uav_NAME` |
    ///
    /// Answers the folders whose files a server takes as an archive, each alone.
    ///
    /// # Errors
    /// When a box is none, or a file can not be written.
    pub fn write_submission(self, folder: &Path, runs: &[Vec<RunResult<'_>>]) -> Result<Vec<PathBuf>> {
        let (format, prefix) = match self {
            Self::Got10kVal | Self::Got10kTest => (ResultFormat::Got10k, ""),
            Self::TrackingNet => (ResultFormat::TrackingNet, ""),
            Self::Uav123 => (ResultFormat::Pytracking, "uav_"),
            Self::Otb100 | Self::Lasot | Self::Own => (ResultFormat::Pytracking, ""),
        };
        let of_run = |run: usize| match format {
            ResultFormat::TrackingNet => folder.join(format!("run_{:03}", run + 1)),
            ResultFormat::Pytracking => folder.join(format!("ebm_{run:03}")),
            ResultFormat::Got10k | ResultFormat::Full => folder.to_owned(),
        };
        for (run, results) in runs.iter().enumerate() {
            for RunResult { name, boxes, seconds } in results {
                let name = format!("{prefix}{name}");
                write_result(&of_run(run), &name, boxes, format, run + 1)?;
                if format == ResultFormat::Pytracking {
                    write_times(&of_run(run), &name, &[*seconds], format)?;
                }
            }
        }
        if format == ResultFormat::Got10k {
            // One file has the times of all runs that have the sequence.
            for RunResult { name, .. } in runs.first().into_iter().flatten() {
                let of = |run: &Vec<RunResult<'_>>| {
                    run.iter().find(|one| one.name == *name).map(|one| one.seconds.to_vec())
                };
                let seconds: Vec<Vec<f64>> = runs.iter().filter_map(of).collect();
                let seconds: Vec<&[f64]> = seconds.iter().map(Vec::as_slice).collect();
                write_times(folder, name, &seconds, format)?;
            }
        }
        Ok(match format {
            ResultFormat::TrackingNet => (0..runs.len()).map(of_run).collect(),
            _ => vec![folder.to_owned()],
        })
    }
}
