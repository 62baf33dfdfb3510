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
