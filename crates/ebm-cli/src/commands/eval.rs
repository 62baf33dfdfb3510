//! `ebm eval`.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Result, bail};
use candle_core::Device;
use clap::{Args, Subcommand};
use ebm_data::{
    coco::{CocoDataset, LoadOptions, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_detect::evaluation::{Refiner, evaluate};
use ebm_eval::{CocoFigures, Detection, GroundTruth, evaluate_coco, evaluate_coco_in_memory, write_results};
use ebm_seed::Key;
use ebm_train::Progress;
use serde_json::{Map, Value, json};

use super::eval_face::{self, AgeArgs, PoseArgs};
use super::eval_strata::{self, StrataArgs};
use super::eval_tracking::{self, TrackingArgs};
use super::{create_dir, predict::Model};
use crate::progress::Console;

/// What to evaluate.
#[derive(Subcommand)]
pub enum Eval {
    /// The twelve COCO figures of a result file, or of a trained model on images.
    Detection(Detection_),
    /// How the gain of refinement depends on occlusion, blur, size and more, on generated scenes.
    Strata(StrataArgs),
    /// Success and precision of the boxes that any tracker wrote.
    Tracking(TrackingArgs),
    /// The mean absolute error of saved networks on faces with ages, refined and not.
    Age(AgeArgs),
    /// The same on heads with poses.
    HeadPose(PoseArgs),
}

/// Arguments of `ebm eval detection`.
#[derive(Args)]
pub struct Detection_ {
    /// COCO annotation file.
    #[arg(long)]
    annotations: PathBuf,
    /// COCO result file to score.
    #[arg(long, conflicts_with_all = ["images", "detector"])]
    results: Option<PathBuf>,
    /// Images of the annotation file, to run a model on.
    #[arg(long, requires = "detector")]
    images: Option<PathBuf>,
    /// Where the result files of the model go.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only the first so many images, by id.
    #[arg(long)]
    limit: Option<usize>,
    #[command(flatten)]
    model: super::predict::ModelArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(command: Eval) -> Result<()> {
    match command {
        Eval::Detection(args) => detection(&args),
        Eval::Strata(args) => eval_strata::run(&args),
        Eval::Tracking(args) => eval_tracking::run(&args),
        Eval::Age(args) => eval_face::age(&args),
        Eval::HeadPose(args) => eval_face::pose(&args),
    }
}

fn detection(args: &Detection_) -> Result<()> {
    let figures = match (&args.results, &args.images) {
        (Some(results), _) => vec![(String::new(), evaluate_coco(&args.annotations, results)?)],
        (None, Some(_)) => score_model(args)?,
        (None, None) => {
            bail!("nothing to score: give --results FILE, or --images DIR with --detector WEIGHTS")
        }
    };
    if args.json {
        let object = |figures: &CocoFigures| {
            Value::Object(
                figures.named().iter().map(|(name, value)| ((*name).into(), json!(value))).collect(),
            )
        };
        match figures.as_slice() {
            [(name, only)] if name.is_empty() => println!("{}", object(only)),
            several => {
                let map: Map<_, _> = several.iter().map(|(name, f)| (name.clone(), object(f))).collect();
                println!("{}", Value::Object(map));
            }
        }
        return Ok(());
    }
    for (name, figures) in figures {
        if !name.is_empty() {
            println!("{name}");
        }
        for (figure, value) in figures.named() {
            println!("{figure:>10} {value:.4}");
        }
    }
    Ok(())
}

/// Figures of Faster-RCNN itself and, with a confidence branch, before and after refinement.
fn score_model(args: &Detection_) -> Result<Vec<(String, CocoFigures)>> {
    let model = Model::load(&args.model, &Device::Cpu)?;
    let Some(images) = &args.images else { bail!("--images is missing") };
    let mut dataset = CocoDataset::load(&args.annotations, images, &LoadOptions::new(Purpose::Eval))?;
    let mut truth = GroundTruth::read(&args.annotations)?;
    if let Some(limit) = args.limit {
        dataset.images.truncate(limit);
        let kept: std::collections::BTreeSet<u64> = dataset.images.iter().map(|image| image.id).collect();
        truth.images.retain(|id| kept.contains(id));
        truth.boxes.retain(|b| kept.contains(&b.image_id));
    }
    let dataset = Arc::new(dataset);
    let loader = LoaderConfig::eval(model.config.detector.input.transform(), 1);
    let loader = Loader::new(dataset.clone(), loader, Key::new(0))?;
    let refiners: Vec<Refiner> =
        model.head.iter().map(|head| Refiner { head: &**head, ascent: model.ascent.clone() }).collect();
    let mut progress = Console::new();
    progress.begin("images", dataset.images.len());
    let evaluation = evaluate(&model.detector, &dataset, &loader, &refiners, &Device::Cpu, &mut |done| {
        progress.advance(done, "");
    })?;
    progress.end();
    let mut sets: Vec<(&str, Vec<Detection>)> = vec![("direct", evaluation.direct)];
    for refined in evaluation.refined {
        sets.extend([("before", refined.before), ("refined", refined.after)]);
    }
    let mut figures = Vec::new();
    for (name, detections) in sets {
        if let Some(out) = &args.out {
            create_dir(out)?;
            write_results(&out.join(format!("{name}.json")), &detections)?;
        }
        figures.push((name.to_owned(), evaluate_coco_in_memory(&truth, &detections)?));
    }
    Ok(figures)
}
