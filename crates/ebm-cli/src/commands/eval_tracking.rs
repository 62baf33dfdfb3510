//! `ebm eval tracking`: metrics of any tracker's boxes, or of a tracker of this project over a dataset.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ebm_eval::Summary;
use ebm_eval::tracking::{
    Annotations, Convention, RunsReport, TestSet, TrackingReport, evaluate_runs, merge,
};
use ebm_track::BandCoverage;
use serde_json::json;

use super::track_dataset::{TrackArgs, track};
use crate::schema::document;

const COMMAND: &str = "eval tracking";

/// Returns a parser of benchmark names.
pub fn parse_test_set() -> impl TypedValueParser<Value = TestSet> {
    let names = PossibleValuesParser::new(TestSet::ALL.map(|(name, _)| name));
    names.map(|name| TestSet::named(&name).unwrap_or(TestSet::Own))
}

/// Toolkit with the conventions of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Toolkit {
    /// The dataset's: GOT-10k's toolkit for GOT-10k, pytracking for the others.
    Own,
    /// pytracking.
    Pytracking,
    /// The OTB toolkit.
    Otb,
    /// The OTB experiment of GOT-10k's toolkit.
    Got10kOtb,
}

/// Arguments of `ebm eval tracking`.
#[derive(Args)]
pub struct TrackingArgs {
    /// Benchmark. With --run, lasot is its test set. got10k is the validation set, with AO as `average_overlap` and SR
    /// as `op50` and `op75`. got10k-test and trackingnet are test sets, whose metrics come from their servers. other is
    /// any folder of box lists, or with --run of sequences laid out like OTB's.
    #[arg(long, value_parser = parse_test_set())]
    dataset: TestSet,
    /// Folder with the annotated boxes.
    #[arg(long, required_unless_present = "run")]
    annotations: Option<PathBuf>,
    /// Folder with a result file for each sequence, with such a folder for each run, or with a folder for each sequence
    /// that has a file for each run.
    #[arg(long, required_unless_present = "run")]
    results: Option<PathBuf>,
    #[command(flatten)]
    track: TrackArgs,
    /// Toolkit with the conventions to follow.
    #[arg(long, value_enum, default_value = "own")]
    toolkit: Toolkit,
    /// Leave out frames without a valid annotation, instead of counting them.
    #[arg(long)]
    exclude_invalid_frames: bool,
    /// JSON file for a report with all curves and sequences, and for each sequence whether its errors are of the box or
    /// of the place.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl TrackingArgs {
    fn convention(&self) -> Convention {
        let by_its_own = matches!(self.dataset, TestSet::Got10kVal | TestSet::Got10kTest);
        let own = match self.toolkit {
            Toolkit::Otb => Convention::otb(),
            Toolkit::Got10kOtb => Convention::got10k_otb(),
            Toolkit::Pytracking if by_its_own => Convention::pytracking(),
            Toolkit::Own | Toolkit::Pytracking => self.dataset.convention(),
        };
        if self.exclude_invalid_frames { own.excluding_invalid_frames() } else { own }
    }
}

pub fn run(args: &TrackingArgs) -> Result<()> {
    let dataset = args.dataset.name();
    let found = match (&args.annotations, &args.results) {
        (Some(annotations), Some(results)) => Some((score(args, annotations, results)?, vec![])),
        _ => track(&args.track, args.dataset, &args.convention())?,
    };
    let Some((runs, bands)) = found else {
        eprintln!("the figures come from the dataset's server");
        return Ok(());
    };
    let with_bands = |mut object: serde_json::Value| {
        if !bands.is_empty() {
            object["band_coverage"] = json!(bands);
        }
        document(COMMAND, object)
    };
    if let Some(path) = &args.report {
        let report = json!({ "dataset": dataset, "runs": runs.len(), "reports": runs });
        ebm_data::files::write_atomic(path, &serde_json::to_vec_pretty(&with_bands(report))?)?;
    }
    let merged = merge(&runs)?;
    if args.json {
        println!("{}", with_bands(object(dataset, &merged, &runs)));
    } else {
        print_table(&merged, &runs);
        if !bands.is_empty() {
            println!("\nBands: {}", bands_table(&bands));
        }
    }
    Ok(())
}

/// Evaluates the runs whose boxes are in the folder `results`.
fn score(args: &TrackingArgs, annotations: &Path, results: &Path) -> Result<Vec<TrackingReport>> {
    let found = match args.dataset {
        TestSet::Otb100 => Annotations::otb100(annotations),
        _ => Annotations::read(annotations),
    };
    let found = found.with_context(|| format!("the annotations in {}", annotations.display()))?;
    evaluate_runs(&found, results, &args.convention())
        .with_context(|| format!("the results in {}", results.display()))
}

fn object(dataset: &str, merged: &RunsReport, runs: &[TrackingReport]) -> serde_json::Value {
    let frames = runs.first().map_or(0, |run| run.frames);
    let unmatched: Vec<&String> = runs.iter().flat_map(|run| &run.unmatched).collect();
    json!({
        "dataset": dataset,
        "convention": merged.convention,
        "runs": merged.runs,
        "sequences": merged.sequences,
        "frames": frames,
        "rows": [merged.figures.without_curves()],
        "failed": merged.failed,
        "unmatched": unmatched,
    })
}

/// Returns a table of the `bands` of sequences, with the mean and the standard deviation over sequences.
pub fn bands_table(bands: &[BandCoverage]) -> String {
    let mut rows: Vec<(&str, [f64; 10])> = Vec::new();
    for found in bands {
        let edges = [0, 1, 2, 3].map(|place| 100.0 * found.held_followed[place]);
        let [frames, followed] = [found.frames as f64, 100.0 * found.followed];
        let mut row = [frames, followed, edges[0], edges[1], edges[2], edges[3], 0.0, 0.0, 0.0, 0.0];
        row[6..].copy_from_slice(&found.widths);
        rows.push((&found.sequence, row));
    }
    let mut moments = [[0.0; 10]; 2];
    for place in 0..10 {
        // A target that was never followed has no edges to hold.
        let counted = rows.iter().filter(|(_, row)| place < 2 || row[1] > 0.0);
        if let Ok(found) = Summary::new(&counted.map(|(_, row)| row[place]).collect::<Vec<f64>>()) {
            [moments[0][place], moments[1][place]] = [found.mean, found.standard_deviation.unwrap_or(0.0)];
        }
    }
    // One sequence has no deviation.
    let shown = if bands.len() > 1 { 2 } else { 1 };
    rows.extend(["mean", "deviation"].into_iter().zip(moments).take(shown));
    let head = "held in followed frames (overlap above 0.5), in per cent, and widths in sides of the box\n\
                sequence          frames followed   left    top  right bottom | left   top right bottom";
    let line = |(name, row): (&str, [f64; 10])| {
        let edges: String = row[2..6].iter().map(|held| format!(" {held:6.1}")).collect();
        let widths: String = row[6..].iter().map(|width| format!(" {width:5.2}")).collect();
        format!("\n{name:<16} {:7.0} {:8.1}{edges} |{widths}", row[0], row[1])
    };
    head.to_owned() + &rows.into_iter().map(line).collect::<String>()
}

fn print_table(merged: &RunsReport, runs: &[TrackingReport]) {
    println!("{} sequences, {} run(s), by {}", merged.sequences, merged.runs, merged.convention.name);
    for (name, value) in [
        ("AUC", merged.figures.auc),
        ("OP50", merged.figures.op50),
        ("OP75", merged.figures.op75),
        ("precision", merged.figures.precision),
        ("normalised precision", merged.figures.norm_precision),
        ("average overlap", merged.figures.average_overlap),
    ] {
        println!("{name:<21} {:6.2}", value);
    }
    for failed in &merged.failed {
        eprintln!("not counted: {}: {}", failed.name, failed.reason);
    }
    for path in runs.iter().flat_map(|run| &run.unmatched) {
        eprintln!("no annotation for {path}");
    }
}
