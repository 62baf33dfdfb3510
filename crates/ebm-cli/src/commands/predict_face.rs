//! `ebm predict age` and `ebm predict head-pose`: predictions for faces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_data::faces::{Pixels, crop_face};
use ebm_data::sequences::Rect;
use ebm_data::{Image, decode::read_upright};
use ebm_face::config::ExperimentConfig;
use ebm_face::prediction::{
    AGE, BUNDLED_BASELINE, FACE_CROP, NO_BASELINE, PROMINENCE, Prediction, Predictor, PredictorOptions,
};
use ebm_train::Progress;
use serde_json::json;

use super::eval_face::NetworkArgs;
use super::parse_box;
use super::predict_inputs::{PictureFolder, image_files, picture_names};
use crate::model_path::ModelPath;
use crate::picture::{Canvas, LEVEL, axes, density_panel, grid, level};
use crate::progress::Console;
use crate::schema::document;
use crate::weights_path;

/// Arguments of `ebm predict age` and `ebm predict head-pose`.
#[derive(Args)]
pub struct FaceArgs {
    /// JPEG, PNG, BMP or WebP files, folders of them, or patterns such as 'faces/*.jpg'. Each image is a cropped face,
    /// turned as its orientation tag says.
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// Run folder of one network, or of `ebm reproduce` with all of its networks; or one network's model.safetensors;
    /// or hub:OWNER/NAME. By default, for ages, the networks that come with this program.
    #[arg(long)]
    run: Option<ModelPath>,
    #[command(flatten)]
    how: NetworkArgs,
    /// Box of the face, as x,y,width,height in pixels. A square around it, half as long again, is cropped. By default
    /// the whole image is taken as the crop.
    #[arg(long = "box", value_parser = parse_box, allow_hyphen_values = true)]
    bbox: Option<Rect>,
    /// Baseline whose estimate is refined, or none to begin at the density's mode. By default direct_l2, if --run has
    /// it, or the only baseline in --run. Without --run, other baselines are looked for in weights/age.
    #[arg(long)]
    baseline: Option<String>,
    /// Folder for pictures; by default none are drawn.
    #[arg(long)]
    out: Option<PathBuf>,
}

impl FaceArgs {
    fn predictor(&self, title: &str) -> Result<Predictor> {
        ensure!(
            self.run.is_some() || title == AGE,
            "there are no weights for the {title} here; give --run, a run of `ebm train head-pose`"
        );
        let NetworkArgs { weights, step_length } = &self.how;
        let weights = weights.as_ref().map(ModelPath::file).transpose()?;
        let options =
            PredictorOptions { weights, step_length: *step_length, baseline: self.baseline.clone() };
        let run = match (&self.run, self.baseline.as_deref()) {
            (Some(run), _) => run.local()?,
            (None, None | Some(BUNDLED_BASELINE | NO_BASELINE)) => return Ok(Predictor::bundled(&options)?),
            (None, Some(_)) => weights_path::find("age".as_ref())?,
        };
        Ok(Predictor::open(&run, title, &options)?)
    }
}

pub fn run(args: &FaceArgs, title: &str) -> Result<()> {
    let images = image_files(&args.images)?;
    ensure!(
        args.bbox.is_none() || images.len() == 1,
        "--box applies to one image, and {} are given",
        images.len()
    );
    let predictor = args.predictor(title)?;
    if args.bbox.is_none() {
        eprintln!(
            "the whole image is taken as the crop of a face; give --box x,y,width,height if it shows more"
        );
    }
    let config = &predictor.energy().config.experiment;
    let pictures = args.out.as_deref().map(|out| PictureFolder::new(out, &images)).transpose()?;
    let mut progress = Console::new();
    if images.len() > 1 {
        progress.begin("looking at faces", images.len());
    }
    for (i, (path, name)) in images.iter().zip(picture_names(&images)).enumerate() {
        let image = read_upright(path)?;
        let cropped = args
            .bbox
            .map(|bbox| crop_face(&image, bbox, FACE_CROP).with_context(|| path.display().to_string()));
        let image = Arc::new(cropped.transpose()?.unwrap_or(image));
        let prediction = predictor.predict(Pixels::Memory(image.clone()))?;
        println!("{}", line(path, config, &prediction)?);
        if let Some(pictures) = &pictures {
            pictures.write(&name, &picture(config, &image, &prediction)?)?;
        }
        progress.advance(i + 1, "");
    }
    progress.end();
    Ok(())
}

/// Returns the prediction as one JSON object.
fn line(path: &Path, config: &ExperimentConfig, prediction: &Prediction) -> Result<serde_json::Value> {
    let mut predictions = Vec::new();
    for (k, name) in config.coordinates.iter().enumerate() {
        let density = &prediction.density[k];
        predictions.push(json!({
            "coordinate": name,
            "prediction": prediction.y[k],
            "initial": prediction.initial[k],
            "mean": density.mean(),
            "median": density.quantile(0.5)?,
            "modes": density.modes(PROMINENCE),
            "region": density.highest_density_region(LEVEL)?.intervals,
        }));
    }
    let command = if config.dim() == 1 { "predict age" } else { "predict head-pose" };
    let body = json!({
        "image": path.to_string_lossy(), "unit": config.unit, "coordinates": config.coordinates, "mass": LEVEL,
        "predictions": predictions,
    });
    Ok(document(command, body))
}

/// Draws the image beside its densities, with the axes of the head if the prediction is a pose.
fn picture(config: &ExperimentConfig, image: &Image, prediction: &Prediction) -> Result<Image> {
    let factor = 240usize.div_ceil(image.height.max(1)).max(1);
    let mut image = Canvas::whole(image.clone()).enlarged(factor).image;
    if let &[yaw, pitch, roll] = prediction.y.as_slice() {
        axes(&mut image, [yaw, pitch, roll]);
    }
    let mut panels = vec![image];
    for (k, name) in config.coordinates.iter().enumerate() {
        panels.push(density_panel(
            &format!("{name}: {:.1} {}", prediction.y[k], config.unit),
            &format!("{name} in {}", config.unit),
            &prediction.density[k],
            &[(prediction.initial[k], "initial"), (prediction.y[k], "prediction")],
        )?);
    }
    Ok(grid(&[level(&panels)], [255; 3])?)
}
