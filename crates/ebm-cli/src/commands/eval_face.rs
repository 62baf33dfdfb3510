//! `ebm eval age` and `ebm eval head-pose`: errors of trained networks.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_face::prediction::{AGE, HEAD_POSE};
use ebm_face::reproduce::{Outcome, Row, evaluate, runs};
use ebm_face::saved::Saved;
use ebm_face::training::FaceSource;
use serde_json::json;

use super::dataset_name;
use super::reproduce::face_tables::calibration;
use super::train::face::{AgeImages, FaceImages, PoseImages};
use crate::model_path::ModelPath;
use crate::progress::Console;
use crate::schema::document;
use crate::table_spec::TableSpec;

/// Arguments that name the networks to evaluate.
#[derive(Args)]
pub struct RunArgs {
    /// Run folder of one network, or of `ebm reproduce` with all of its networks; or one network's model.safetensors;
    /// or hub:OWNER/NAME.
    #[arg(long)]
    run: ModelPath,
    #[command(flatten)]
    how: NetworkArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Arguments for opening saved networks.
#[derive(Args)]
pub struct NetworkArgs {
    /// Weights of the backbone, if they are no longer where they were in training.
    #[arg(long)]
    pub weights: Option<ModelPath>,
    /// Step length λ of the refinement, instead of the one chosen on the validation split.
    #[arg(long)]
    pub step_length: Option<f64>,
}

/// Arguments of `ebm eval age`.
#[derive(Args)]
pub struct AgeArgs {
    #[command(flatten)]
    model: RunArgs,
    #[command(flatten)]
    images: AgeImages,
    /// Years to add to each age of --split if file names do not tell the age: 0, or 21 for ages less 21.
    #[arg(long, requires = "split")]
    shift: Option<f32>,
    /// CSV like --split, of images that the networks were not trained on. Densities are calibrated on these images and
    /// measured on the others.
    #[arg(long)]
    validation: Option<PathBuf>,
    /// Folder of the images of --validation; by default --images.
    #[arg(long, requires = "validation")]
    validation_images: Option<PathBuf>,
}

/// Arguments of `ebm eval head-pose`.
#[derive(Args)]
pub struct PoseArgs {
    #[command(flatten)]
    model: RunArgs,
    #[command(flatten)]
    images: PoseImages,
}

/// Runs `ebm eval age`.
pub fn age(args: &AgeArgs) -> Result<()> {
    let AgeImages { images, split } = &args.images;
    let source = |images: &PathBuf, split: Option<&PathBuf>, shift| FaceSource::Ages {
        images: images.clone(),
        split: split.cloned(),
        shift,
    };
    let held_out = args
        .validation
        .as_ref()
        .map(|list| source(args.validation_images.as_ref().unwrap_or(images), Some(list), None));
    let dataset = dataset_name(split.as_deref().unwrap_or(images));
    let faces = source(images, split.as_ref(), args.shift);
    score(&args.model, AGE, &dataset, &faces, held_out.as_ref())
}

/// Runs `ebm eval head-pose`.
pub fn pose(args: &PoseArgs) -> Result<()> {
    let dataset = args.images.given().map(dataset_name).unwrap_or_default();
    score(&args.model, HEAD_POSE, &dataset, &args.images.source()?, None)
}

/// Evaluates the networks for `task`, the title of its configurations, on the `faces` of a dataset. Densities are
/// calibrated on the faces `held_out`.
fn score(
    model: &RunArgs,
    task: &str,
    dataset: &str,
    faces: &FaceSource,
    held_out: Option<&FaceSource>,
) -> Result<()> {
    let weights = model.how.weights.as_ref().map(ModelPath::file).transpose()?;
    let saved = runs(&model.run.local()?)?.into_iter().map(|run| Saved::load(&run, weights.as_deref()));
    let saved = saved.collect::<Result<Vec<_>, _>>()?;
    let config = saved.first().map(|saved| saved.config.experiment.clone()).context("there is no network")?;
    let (place, known) = (model.run.given().display(), &config.title);
    ensure!(known == task, "{place} holds networks for the {known}, not for the {task}");
    let faces = faces.read(&config.coordinates)?;
    let held_out = held_out.map(|faces| faces.read(&config.coordinates)).transpose()?;
    let skipped = faces.quarantine.defects.len();
    for defect in &faces.quarantine.defects {
        eprintln!("left out: {defect}");
    }
    let ascent = model.how.step_length.map(|length| config.refinement.ascent(length));
    let images = faces.faces.len();
    let held_out = held_out.map(Arc::new);
    let outcome = evaluate(saved, &Arc::new(faces), held_out.as_ref(), ascent, &mut Console::new())?;
    if model.json {
        let object = json!({
            "dataset": dataset, "unit": config.unit, "coordinates": config.coordinates, "images": images, "left_out": skipped,
            "step_length": outcome.step_length(), "rows": outcome.rows, "calibration": outcome.calibration,
            "paired": outcome.paired,
        });
        println!("{}", document(if task == AGE { "eval age" } else { "eval head-pose" }, object));
    } else {
        println!("{}", table(&config.coordinates, &outcome)?);
        if !outcome.calibration.is_empty() {
            println!("{}", calibration(&outcome.calibration)?);
        }
    }
    Ok(())
}

fn table(coordinates: &[String], outcome: &Outcome) -> Result<String> {
    let several = coordinates.iter().filter(|_| coordinates.len() > 1);
    TableSpec::new()
        .text("method", |row: &&Row| row.method.clone())
        .text("seed", |row| row.seed)
        .text("refined", |row| if row.refined { "yes" } else { "no" })
        .number("MAE", 3, |row| row.mae)
        .numbers(several, 3, |row, k| row.coordinates[k])
        .render(&outcome.rows)
}
