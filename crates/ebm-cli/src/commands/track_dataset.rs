//! A tracker over a whole dataset, for `ebm eval tracking --run`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ebm_data::fetch::sha256_of;
use ebm_data::files::{read_settings, write_atomic};
use ebm_eval::tracking::{Convention, RunResult, TestSet, TrackingReport};
use ebm_track::saved::SavedConfig;
use ebm_track::{
    BandCoverage, Repetition, Runs, TrackedSequence, Tracker, TrackerOptions, band_coverage, track_dataset,
};
use ebm_train::settings;
use serde::Serialize;

use super::{create_dir, say_left_out};
use crate::model_path::ModelPath;
use crate::progress::Console;

/// What and how often is tracked, and where the boxes go.
#[derive(Args)]
pub struct TrackArgs {
    /// A run of `ebm reproduce tracking`, such as runs/tracking-mini-1/ebm-0, or hub:OWNER/NAME, whose tracker goes
    /// over the whole dataset.
    #[arg(long, conflicts_with_all = ["annotations", "results"], requires_all = ["sequences", "out"])]
    pub run: Option<ModelPath>,
    /// The dataset's folder, laid out as published.
    #[arg(long, requires = "run")]
    sequences: Option<PathBuf>,
    /// Where boxes, times and the submission go; called again with the same folder, an interrupted command
    /// goes on.
    #[arg(long, requires = "run")]
    out: Option<PathBuf>,
    /// Times that every sequence is tracked: a tracker draws numbers, and figures are means over its runs.
    #[arg(long, requires = "run", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Sequences that are tracked at a time; by default as many as the machine has cores.
    #[arg(long, requires = "run", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Seed of the tracker's numbers.
    #[arg(long, requires = "run", default_value_t = 0)]
    seed: u64,
    /// The backbone's weight file, where it is no longer where the run had it.
    #[arg(long, requires = "run")]
    backbone: Option<ModelPath>,
    /// Follow every sequence once more, and say how often the bands of p(y|x) hold the annotated edges.
    #[arg(long, requires = "run")]
    bands: bool,
    /// Samples of p(y|x) in each frame, for the bands.
    #[arg(long, requires = "bands", default_value_t = 128)]
    samples: usize,
}

/// What a tracker made of a dataset.
pub struct Found {
    /// A report for each run; none where only a server has the annotations.
    pub reports: Option<Vec<TrackingReport>>,
    /// How often bands hold edges, where that was asked for.
    pub bands: Option<BandCoverage>,
}

/// What the boxes in a folder depend on, which does not change when the command goes on.
#[derive(Serialize)]
struct Origin {
    dataset: String,
    model_sha256: String,
    backbone_sha256: String,
    seed: u64,
    tracker: SavedConfig,
}

/// Tracks the dataset and writes what its server or toolkit expects.
pub fn track(args: &TrackArgs, set: TestSet, convention: &Convention) -> Result<Found> {
    let (Some(run), Some(root), Some(out)) = (&args.run, &args.sequences, &args.out) else {
        bail!("give --run, --sequences and --out");
    };
    let run = run.local()?;
    let backbone = args.backbone.as_ref().map(ModelPath::file).transpose()?;
    let options = TrackerOptions { backbone: backbone.clone(), seed: args.seed };
    let tracker = Tracker::open_with(&run, &options)?;
    let weights = backbone.unwrap_or_else(|| tracker.saved().backbone_path(&run));
    let origin = Origin {
        dataset: format!("{set:?}"),
        model_sha256: sha256_of(&SavedConfig::model_path(&run))?,
        backbone_sha256: sha256_of(&weights)?,
        seed: args.seed,
        tracker: tracker.saved().clone(),
    };
    create_dir(out)?;
    check_origin(&out.join("origin.toml"), &origin)?;

    let found = set.load(root).with_context(|| format!("the dataset in {}", root.display()))?;
    say_left_out(&found.quarantine);
    let sequences = found.sequences;
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let runs =
        Runs { repetitions: usize::from(args.repetitions), workers: args.workers.map_or(cores, usize::from) };
    let boxes = out.join("boxes");
    let mut progress = Console::new();
    let (networks, settings) = (tracker.networks(), &tracker.saved().tracker);
    let all = track_dataset(networks, settings, &sequences, &boxes, runs, tracker.key(), &mut progress)?;
    eprintln!(
        "boxes and times of {} sequences and {} runs are in {}",
        sequences.len(),
        all.len(),
        boxes.display()
    );
    submit(set, out, &all)?;
    if set.is_scored_by_a_server() {
        for failed in all.iter().flat_map(|run| &run.failed) {
            eprintln!("not tracked: {}: {}", failed.name, failed.reason);
        }
        return Ok(Found { reports: None, bands: None });
    }
    let reports = all.iter().map(|run| run.report(&sequences, convention));
    let reports = Some(reports.collect::<Result<_, _>>()?);
    let bands = args.bands.then(|| band_coverage(&tracker, &sequences, args.samples, &mut progress));
    Ok(Found { reports, bands: bands.transpose()? })
}

/// Refuses a folder that has the boxes of something else.
fn check_origin(path: &Path, origin: &Origin) -> Result<()> {
    let text = toml::to_string(origin)?;
    if !path.is_file() {
        return Ok(write_atomic(path, text.as_bytes())?);
    }
    let there = settings::flat(&read_settings(path)?)
        .with_context(|| format!("{}; give another --out", path.display()))?;
    let differences = settings::differences(&there, &settings::flat(&text)?, |_| true);
    let (path, list) = (path.display(), differences.join(", "));
    ensure!(differences.is_empty(), "{path} has boxes with {list}; give another --out");
    Ok(())
}

/// Writes the submission anew.
fn submit(set: TestSet, out: &Path, all: &[Repetition]) -> Result<()> {
    let folder = out.join("submission");
    if folder.is_dir() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let results: Vec<Vec<RunResult<'_>>> =
        all.iter().map(|run| run.tracked.iter().map(result_of).collect()).collect();
    for folder in set.write_submission(&folder, &results)? {
        eprintln!(
            "what is in {} is for the dataset's toolkit, or packed by zip for its server",
            folder.display()
        );
    }
    if set == TestSet::Got10kTest && all.len() != 3 {
        eprintln!("GOT-10k's protocol has three runs; there are {}", all.len());
    }
    Ok(())
}

fn result_of(found: &TrackedSequence) -> RunResult<'_> {
    RunResult { name: &found.name, boxes: &found.boxes, seconds: &found.seconds }
}
