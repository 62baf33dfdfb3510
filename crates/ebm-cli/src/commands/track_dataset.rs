//! Runs a tracker over a whole dataset, for `ebm eval tracking --run`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_data::fetch::sha256_of;
use ebm_eval::tracking::{Convention, TestSet, TrackingReport};
use ebm_track::{
    BandCoverage, Origin, Runs, Tracker, TrackerOptions, band_coverage, track_dataset, write_submission,
};
use ebm_train::ModelFile;

use super::{create_dir, report_left_out};
use crate::model_path::ModelPath;
use crate::progress::Console;

/// Arguments of a tracker's runs over a dataset.
#[derive(Args)]
pub struct TrackArgs {
    /// Run of `ebm reproduce tracking`, such as runs/tracking-mini-1/ebm-0, or hub:OWNER/NAME. Its tracker goes over
    /// the whole dataset.
    #[arg(long, conflicts_with_all = ["annotations", "results"], requires_all = ["sequences", "out"])]
    pub run: Option<ModelPath>,
    /// Folder of the dataset, laid out as published.
    #[arg(long, requires = "run")]
    sequences: Option<PathBuf>,
    /// Folder for boxes, times and the submission. An interrupted command continues when it is called again with the
    /// same folder.
    #[arg(long, requires = "run")]
    out: Option<PathBuf>,
    /// Number of runs over every sequence. A tracker is random, so results are means over its runs.
    #[arg(long, requires = "run", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Number of sequences that are tracked at the same time; by default one for each core.
    #[arg(long, requires = "run", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Seed of the tracker's random numbers.
    #[arg(long, requires = "run", default_value_t = 0)]
    seed: u64,
    /// Weights of the backbone, if they are no longer where the run had them.
    #[arg(long, requires = "run")]
    backbone: Option<ModelPath>,
    /// Track every sequence once more and measure how often the bands of p(y|x) hold the annotated edges.
    #[arg(long, requires = "run")]
    bands: bool,
    /// Samples of p(y|x) in each frame, for the bands.
    #[arg(long, requires = "bands", default_value_t = 128)]
    samples: usize,
}

/// Report of each run, and the coverage of the bands if it was asked for.
pub type Tracked = (Vec<TrackingReport>, Vec<BandCoverage>);

/// Tracks the dataset and writes the files that its server or toolkit expects. Returns `None` if only a server has the
/// annotations.
pub fn track(args: &TrackArgs, set: TestSet, convention: &Convention) -> Result<Option<Tracked>> {
    let (Some(run), Some(root), Some(out)) = (&args.run, &args.sequences, &args.out) else {
        bail!("give --run, --sequences and --out");
    };
    let run = run.local()?;
    let backbone = args.backbone.as_ref().map(ModelPath::file).transpose()?;
    let tracker = Tracker::open_with(&run, &TrackerOptions { backbone, seed: args.seed })?;
    let origin = Origin {
        dataset: format!("{set:?}"),
        model_sha256: sha256_of(&ModelFile::at(&run))?,
        seed: args.seed,
        tracker: tracker.saved.clone(),
    };
    create_dir(out)?;
    origin.claim(out)?;

    let found = set.load(root).with_context(|| format!("the dataset in {}", root.display()))?;
    report_left_out("sequences", &found.quarantine);
    let sequences = found.sequences;
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let runs =
        Runs { repetitions: usize::from(args.repetitions), workers: args.workers.map_or(cores, usize::from) };
    let boxes = out.join("boxes");
    let mut progress = Console::new();
    let (networks, settings) = (&tracker.networks, &tracker.saved.tracker);
    let all = track_dataset(networks, settings, &sequences, &boxes, runs, tracker.key, &mut progress)?;
    eprintln!(
        "boxes and times of {} sequences and {} runs are in {}",
        sequences.len(),
        all.len(),
        boxes.display()
    );
    for folder in write_submission(set, &out.join("submission"), &all)? {
        let folder = folder.display();
        eprintln!("the files in {folder} are for the dataset's toolkit; pack them with zip for its server");
    }
    if set == TestSet::Got10kTest && all.len() != 3 {
        eprintln!("GOT-10k's protocol has three runs; there are {}", all.len());
    }
    if set.is_scored_by_a_server() {
        for failed in all.iter().flat_map(|run| &run.failed) {
            eprintln!("not tracked: {}: {}", failed.name, failed.reason);
        }
        return Ok(None);
    }
    let reports = all.iter().map(|run| run.report(&sequences, convention)).collect::<Result<_, _>>()?;
    let bands = match args.bands {
        true => band_coverage(&tracker, &sequences, args.samples, &mut progress)?,
        false => vec![],
    };
    Ok(Some((reports, bands)))
}
