//! `ebm eval detection`: COCO metrics of a result file or a model.

mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::detection_folder::{DetectionFolder, Split};
use ebm_eval::{
    Detection, Error, GroundTruth, edge_coverage, read_entries, read_results_for, write_results,
    write_results_for_server,
};
use ebm_train::Progress;
use serde_json::json;

use self::report::{Report, ReportOptions, worst};
use super::{create_dir, dataset_name, report_left_out};
use crate::progress::Console;
use crate::schema::document;
use crate::tolerance::ToleranceArgs;
use crate::workers::WorkersArgs;

const COMMAND: &str = "eval detection";

/// Arguments of `ebm eval detection`.
#[derive(Args)]
pub struct DetectionArgs {
    /// COCO annotation file. If it is a test set's, which has no annotations, the files for the evaluation server are
    /// written.
    #[arg(long, required_unless_present = "data")]
    annotations: Option<PathBuf>,
    /// Folder of annotated images in COCO's, Pascal VOC's or YOLO's format, which is detected, instead of --annotations
    /// and --images.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["annotations", "images"])]
    data: Option<PathBuf>,
    /// Split of the folder: train, valid or test.
    #[arg(long, requires = "data", default_value = "valid", value_parser = split)]
    split: Split,
    /// COCO result file to score.
    #[arg(long, conflicts_with_all = ["detector", "images"])]
    results: Option<PathBuf>,
    /// Folder of the annotation file's images, to run a model on.
    #[arg(long)]
    images: Option<PathBuf>,
    /// Folder for the result files of the model.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Evaluate only the first LIMIT images, by id.
    #[arg(long)]
    limit: Option<usize>,
    /// Also print the average precision of each category.
    #[arg(long)]
    per_class: bool,
    /// Also print the kinds of errors, and the loss in AP50 from each.
    #[arg(long)]
    errors: bool,
    /// List COUNT images with the most errors, after refinement if the model refines boxes.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=100))]
    worst: Option<u16>,
    #[command(flatten)]
    model: super::predict::ModelArgs,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    #[command(flatten)]
    workers: WorkersArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Name of a method and its detections. The name is empty for a result file.
type Set = (String, Vec<Detection>);

/// Parses the name of a split.
fn split(name: &str) -> Result<Split, String> {
    let known = Split::ALL.into_iter().find(|split| split.to_string() == name);
    known.ok_or_else(|| "expected train, valid or test".to_owned())
}

impl DetectionArgs {
    /// Returns the annotation file or the folder of --data.
    fn source(&self) -> &Path {
        self.annotations.as_deref().or(self.data.as_deref()).unwrap_or(Path::new(""))
    }

    /// Loads the annotated images, whose files are in --data or --images.
    fn dataset(&self, options: LoadOptions) -> Result<CocoDataset, ebm_data::Error> {
        let options = LoadOptions { tolerance: self.tolerance.tolerance(), ..options };
        match &self.data {
            Some(folder) => DetectionFolder::open(folder)?.load(self.split, &options),
            None => {
                CocoDataset::load(self.source(), self.images.as_deref().unwrap_or(Path::new("")), &options)
            }
        }
    }

    /// Loads the annotated images without checking that their files exist.
    fn named(&self) -> Result<CocoDataset, ebm_data::Error> {
        self.dataset(LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Eval) })
    }

    fn truth(&self) -> Result<GroundTruth, Error> {
        match &self.data {
            None => match GroundTruth::read(self.source()) {
                // Without the defective records, which a training leaves out too.
                Err(error) if !matches!(error, Error::NotAnnotated { .. }) => match self.named() {
                    Ok(dataset) => {
                        report_left_out("records", &dataset.quarantine);
                        Ok(GroundTruth::from(&dataset))
                    }
                    Err(too_many @ ebm_data::Error::TooManyDefects { .. }) => Err(too_many.into()),
                    Err(_) => Err(error),
                },
                read => read,
            },
            Some(_) => Ok(GroundTruth::from(&self.named()?)),
        }
    }
}

pub fn run(args: &DetectionArgs) -> Result<()> {
    ensure!(
        args.results.is_some() || args.images.is_some() || args.data.is_some(),
        "nothing to score: give --results FILE, or --images DIR to run a detector on"
    );
    let mut truth = match args.truth() {
        Err(Error::NotAnnotated { .. }) if args.results.is_none() => return test_set(args),
        truth => truth?,
    };
    let sets = sets(args, &mut truth)?;
    if let (None, Some(out)) = (&args.results, &args.out) {
        create_dir(out)?;
        for (name, detections) in &sets {
            write_results(&out.join(format!("{name}.json")), detections)?;
        }
    }

    let options = ReportOptions { categories: args.per_class, errors: args.errors };
    let mut reports = Vec::with_capacity(sets.len());
    for (name, detections) in &sets {
        reports.push(Report::new(name, &truth, detections, &options)?);
    }
    if let (Some(path), [report], [(_, detections)]) = (&args.results, &mut reports[..], &sets[..]) {
        let entries = read_entries(path)?;
        report.edges = edge_coverage(&truth, &entries, detections, &path.display().to_string())?;
    }
    let worst = match (args.worst, sets.last()) {
        (Some(count), Some((_, found))) => Some(worst(&truth, found, &args.named()?, count.into())?),
        _ => None,
    };
    if args.json {
        let rows = reports.iter().map(Report::object).collect::<Result<Vec<_>>>()?;
        let mut object =
            json!({ "dataset": dataset_name(args.source()), "images": truth.images.len(), "rows": rows });
        if let Some((point, images, _)) = worst {
            object["operating_point"] = point;
            object["worst"] = images;
        }
        println!("{}", document(COMMAND, object));
        return Ok(());
    }
    for report in &reports {
        print!("{}", report.text()?);
    }
    if let Some((.., text)) = worst {
        print!("{text}");
    }
    Ok(())
}

/// Returns the detections to evaluate. Images that the model was not run on are removed from `truth`.
fn sets(args: &DetectionArgs, truth: &mut GroundTruth) -> Result<Vec<Set>> {
    if let Some(results) = &args.results {
        return Ok(vec![(String::new(), read_results_for(results, truth)?)]);
    }
    let (sets, kept) = detections(args)?;
    truth.images.retain(|id| kept.contains(id));
    truth.boxes.retain(|object| kept.contains(&object.image_id));
    Ok(sets)
}

/// Runs the model on the images and returns their ids with the detections: the detector's own, and also those before
/// and after refinement by a confidence, or from a density under its method's name.
fn detections(args: &DetectionArgs) -> Result<(Vec<Set>, BTreeSet<u64>)> {
    let detector = args.model.open(0.0)?;
    let dataset = args.dataset(LoadOptions { labels: detector.labels(), ..LoadOptions::new(Purpose::Eval) });
    let mut dataset =
        dataset.with_context(|| format!("{} on these annotations", args.model.weights_name()))?;
    report_left_out("records", &dataset.quarantine);
    detector.check_classes(args.source(), &dataset)?;
    dataset.images.truncate(args.limit.unwrap_or(usize::MAX));
    let dataset = Arc::new(dataset);
    let mut progress = Console::new();
    progress.begin("images", dataset.images.len());
    let advance = &mut |done| progress.advance(done, "");
    let evaluation = detector.evaluate(&dataset, args.workers.count(), advance)?;
    progress.end();
    let mut sets: Vec<Set> = vec![("direct".into(), evaluation.direct.detections)];
    let method = detector.method();
    for found in evaluation.placed {
        match found.before {
            None => sets.push((method.into(), found.detections)),
            Some(before) => sets.extend([("before".into(), before), ("refined".into(), found.detections)]),
        }
    }
    Ok((sets, dataset.images.iter().map(|image| image.id).collect()))
}

/// Writes the files for the evaluation server, which alone has the annotations.
fn test_set(args: &DetectionArgs) -> Result<()> {
    let file = args.source().display();
    if args.per_class || args.errors || args.worst.is_some() {
        bail!(
            "{file} has no annotations, as the file of a test set: --per-class, --errors and --worst need some; leave them out, or evaluate the validation set"
        );
    }
    let out = args.out.as_deref().with_context(|| {
        format!("{file} has no annotations, as the file of a test set: say with --out where the files for the server go")
    })?;
    // The file is checked before the images, which may take hours.
    GroundTruth::read_test_set(args.source())?;
    let (sets, images) = detections(args)?;
    create_dir(out)?;
    let split = dataset_name(args.source());
    let mut files = Vec::new();
    for (name, detections) in &sets {
        let path = out.join(format!("detections_{split}_{name}_results.json"));
        write_results_for_server(&path, detections)?;
        files.push(json!({ "method": name, "path": path.to_string_lossy() }));
    }
    if args.json {
        let object = json!({ "dataset": split, "images": images.len(), "files": files });
        println!("{}", document(COMMAND, object));
        return Ok(());
    }
    println!("{file} has no annotations: the figures come from the evaluation server.");
    println!("Detections in {} images of {split}; zip one file and send it there:", images.len());
    for path in files.iter().filter_map(|file| file["path"].as_str()) {
        println!("{path}");
    }
    Ok(())
}
