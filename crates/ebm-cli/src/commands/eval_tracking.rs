//! `ebm eval tracking`: boxes that any tracker wrote.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ebm_eval::Summary;
use ebm_eval::tracking::{Annotations, Convention, RunsReport, TrackingReport, evaluate_runs, merge};
use serde_json::json;

use crate::schema::document;

const COMMAND: &str = "eval tracking";

/// A benchmark: its annotations and how its figures are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dataset {
    /// OTB-100 (OTB-2015).
    Otb100,
    /// UAV123.
    Uav123,
    /// Need for Speed, 30 frames a second.
    Nfs,
    /// LaSOT.
    Lasot,
    /// GOT-10k: AO as `average_overlap`, SR as `op50` and `op75`.
    Got10k,
    /// TrackingNet, as its server is known to compute.
    Trackingnet,
    /// Any folder of box lists, as pytracking computes.
    Other,
}

/// Whose conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Toolkit {
    /// That of the dataset: pytracking's, but GOT-10k's and TrackingNet's for their own.
    Own,
    /// pytracking's.
    Pytracking,
    /// The OTB toolkit's.
    Otb,
    /// The OTB experiment of GOT-10k's toolkit.
    Got10kOtb,
}

/// Arguments of `ebm eval tracking`.
#[derive(Args)]
pub struct TrackingArgs {
    /// Which benchmark.
    #[arg(long, value_enum)]
    dataset: Dataset,
    /// The folder with the annotated boxes.
    #[arg(long)]
    annotations: PathBuf,
    /// The folder with a result file for each sequence, or a folder for each sequence with a file for each run.
    #[arg(long)]
    results: PathBuf,
    /// Whose conventions to compute by.
    #[arg(long, value_enum, default_value = "own")]
    toolkit: Toolkit,
    /// Leave frames without a valid annotation out, instead of counting them.
    #[arg(long)]
    exclude_invalid_frames: bool,
    /// Write the report with all curves and sequences here, as JSON.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl TrackingArgs {
    fn convention(&self) -> Convention {
        let own = match (self.toolkit, self.dataset) {
            (Toolkit::Otb, _) => Convention::otb(),
            (Toolkit::Got10kOtb, _) => Convention::got10k_otb(),
            (Toolkit::Own, Dataset::Got10k) => Convention::got10k(),
            (Toolkit::Own, Dataset::Trackingnet) => Convention::trackingnet(),
            (_, Dataset::Uav123) => Convention::pytracking_uav(),
            (_, Dataset::Lasot) => Convention::pytracking_lasot(),
            _ => Convention::pytracking(),
        };
        if self.exclude_invalid_frames { own.excluding_invalid_frames() } else { own }
    }
}

/// Runs the command.
pub fn run(args: &TrackingArgs) -> Result<()> {
    let dataset =
        args.dataset.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let annotations = match args.dataset {
        Dataset::Otb100 => Annotations::otb100(&args.annotations),
        _ => Annotations::read(&args.annotations),
    };
    let annotations =
        annotations.with_context(|| format!("the annotations in {}", args.annotations.display()))?;
    let runs = evaluate_runs(&annotations, &args.results, &args.convention())
        .with_context(|| format!("the results in {}", args.results.display()))?;
    if let Some(path) = &args.report {
        let text = serde_json::to_vec_pretty(&document(
            COMMAND,
            json!({ "dataset": dataset, "runs": runs.len(), "reports": runs }),
        ))?;
        ebm_data::files::write_atomic(path, &text)?;
    }
    let merged = merge(&runs)?;
    if args.json {
        println!("{}", document(COMMAND, object(&dataset, &merged, &runs)));
    } else {
        print_table(&merged, &runs);
    }
    Ok(())
}

fn object(dataset: &str, merged: &RunsReport, runs: &[TrackingReport]) -> serde_json::Value {
    let frames = runs.first().map_or(0, |run| run.frames);
    let unmatched: Vec<&String> = runs.iter().flat_map(|run| &run.unmatched).collect();
    let fraction = |summary: &Summary| 0.01 * summary.mean;
    json!({
        "dataset": dataset,
        "convention": merged.convention,
        "runs": merged.runs,
        "sequences": merged.sequences,
        "frames": frames,
        "rows": [{
            "auc": fraction(&merged.auc),
            "op50": fraction(&merged.op50),
            "op75": fraction(&merged.op75),
            "precision": fraction(&merged.precision),
            "norm_precision": fraction(&merged.norm_precision),
            "average_overlap": fraction(&merged.average_overlap),
        }],
        "failed": merged.failed,
        "unmatched": unmatched,
    })
}

fn print_table(merged: &RunsReport, runs: &[TrackingReport]) {
    println!("{} sequences, {} run(s), by {}", merged.sequences, merged.runs, merged.convention.name);
    for (name, value) in [
        ("AUC", &merged.auc),
        ("OP50", &merged.op50),
        ("OP75", &merged.op75),
        ("precision", &merged.precision),
        ("normalised precision", &merged.norm_precision),
        ("average overlap", &merged.average_overlap),
    ] {
        println!("{name:<21} {:6.2}", value.mean);
    }
    for failed in &merged.failed {
        eprintln!("not counted: {}: {}", failed.name, failed.reason);
    }
    for path in runs.iter().flat_map(|run| &run.unmatched) {
        eprintln!("no annotation for {path}");
    }
}
