//! Datasets of sequences.

use std::path::Path;

use rayon::prelude::*;

use super::{CheckOptions, Checked, photo};
use crate::error::Result;
use crate::quarantine::{Finding, Tolerance};
use crate::sequences::{FrameCheck, SequenceOptions, Sequences, got10k, lasot, nfs, otb, trackingnet, uav};

/// Which dataset of sequences, and which part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// OTB-100.
    Otb,
    /// NFS at 30 frames per second.
    Nfs,
    /// UAV123.
    Uav,
    /// LaSOT.
    Lasot(lasot::Split),
    /// GOT-10k.
    Got10k(got10k::Split),
    /// TrackingNet.
    TrackingNet(Vec<trackingnet::Set>),
}

/// Checks the dataset in the folder `root`: that annotations can be read, that there are as many frames as
/// boxes, and each frame.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io); [`Error::Format`](crate::Error::Format) for a folder without sequences.
pub fn sequences(root: &Path, benchmark: &Benchmark, options: &CheckOptions) -> Result<Checked> {
    let tolerance = Tolerance { max_bad_fraction: 1., report: None };
    let read = SequenceOptions { check: FrameCheck::Report, tolerance };
    let Sequences { sequences, quarantine } = match benchmark {
        Benchmark::Otb => otb::load(root, &read),
        Benchmark::Nfs => nfs::load(root, &read),
        Benchmark::Uav => uav::load(root, &read),
        Benchmark::Lasot(split) => lasot::load(root, split, &read),
        Benchmark::Got10k(split) => got10k::load(root, split, &read),
        Benchmark::TrackingNet(sets) => trackingnet::load(root, sets, &read),
    }?;
    let mut checked = Checked { samples: sequences.len() + quarantine.defects.len(), quarantine };
    for sequence in &sequences {
        let frames: Vec<_> = (0..sequence.frames.len()).filter_map(|i| sequence.frames.path(i)).collect();
        let found: Vec<Result<Vec<Finding>>> =
            frames.par_iter().map(|path| photo::check(path, None, options.decode)).collect();
        for (path, findings) in frames.iter().zip(found) {
            for finding in findings? {
                checked.record(path, &format!("sequence {}", sequence.name), finding);
            }
        }
    }
    Ok(checked)
}
