//! `ebm export`: a trained energy model as ONNX files.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ebm_base::files::{Durability, replace_with};
use ebm_detect::BoxRefiner;
use ebm_detect::weights::REFINER;
use ebm_face::network::ENERGY;
use ebm_face::prediction::{AGE, HEAD_POSE};
use ebm_face::reproduce::runs;
use ebm_face::saved::{RunConfig, Saved};
use ebm_nn::onnx::Part;
use ebm_track::saved::TRACKING;
use ebm_track::{Tracker, TrackerOptions};
use ebm_train::ModelMetadata;

use crate::model_path::ModelPath;

/// Arguments of `ebm export`.
#[derive(Args)]
pub struct ExportArgs {
    /// A trained energy model for ages or head poses or a trained tracker, as a run or a file; or the file of a box
    /// refiner; or hub:OWNER/NAME.
    model: ModelPath,
    /// Name of the files to write. With model.onnx, model_features.onnx computes g_x of an image, and model_head.onnx
    /// computes f from g_x and y. A tracker's features also need the output of model_reference.onnx for the target.
    output: PathBuf,
    /// Weights of the backbone, if they are no longer where they were in training.
    #[arg(long, visible_alias = "backbone")]
    weights: Option<ModelPath>,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &ExportArgs) -> Result<()> {
    let stem = args.output.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.filter(|_| args.output.extension().is_some_and(|extension| extension == "onnx"));
    let stem = stem.with_context(|| {
        format!("{}: let the output's name end in .onnx, as model.onnx", args.output.display())
    })?;
    let parts = args.network()?;
    let place = |part: &Part| args.output.with_file_name(format!("{stem}_{}.onnx", part.name));
    if let Some(there) = parts.iter().map(place).find(|place| place.exists() && !args.force) {
        bail!("{} is there already; give another name, or --force to replace it", there.display());
    }
    if let Some(folder) = args.output.parent() {
        ebm_data::files::create_dir(folder)?;
    }
    let files: Vec<(PathBuf, &[u8])> = parts.iter().map(|part| (place(part), &*part.bytes)).collect();
    write_together(&files).with_context(|| format!("cannot write the parts of {}", args.output.display()))?;
    files.iter().for_each(|(place, _)| println!("{}", place.display()));
    Ok(())
}

/// Writes all files aside before the first gets its name, so that a killed program hardly leaves old files among new ones.
fn write_together(files: &[(PathBuf, &[u8])]) -> std::io::Result<()> {
    let Some(((place, bytes), others)) = files.split_first() else { return Ok(()) };
    replace_with(place, Durability::Atomic, |file| {
        file.write_all(bytes)?;
        write_together(others)
    })
}

impl ExportArgs {
    fn network(&self) -> Result<Vec<Part>> {
        let path = self.model.local()?;
        let file = model_file(&path).map_or_else(|| self.model.file(), Ok)?;
        let task = ModelMetadata::read(&file)?.map(|said| said.task);
        match task.as_deref() {
            Some(REFINER) => {
                ensure!(self.weights.is_none(), "--weights: a refiner's body is in its own file");
                Ok(BoxRefiner::open(file)?.onnx()?)
            }
            Some(TRACKING) => {
                let options = TrackerOptions { backbone: self.weights()?, ..TrackerOptions::default() };
                Ok(Tracker::open_with(&path, &options)?.onnx()?)
            }
            Some(AGE | HEAD_POSE) => self.face(&path),
            Some(other) => Err(self.refusal(&format!(
                "it is a model for {other}; energy models of ages and head poses, trackers and refiners of boxes have an ONNX form"
            ))),
            None => Err(self.refusal(
                "it does not say what it is; give a run of `ebm train age`, `head-pose`, `tracker` or `refiner`, or its file",
            )),
        }
    }

    /// Returns the error of a model without an ONNX form.
    fn refusal(&self, reason: &str) -> anyhow::Error {
        ebm_data::Error::Data(self.model.given().to_owned(), reason.to_owned()).into()
    }

    fn weights(&self) -> Result<Option<PathBuf>> {
        self.weights.as_ref().map(ModelPath::file).transpose()
    }

    /// Exports the energy model of a run, or of the first of several runs that has one.
    fn face(&self, path: &Path) -> Result<Vec<Part>> {
        let runs = if path.is_file() { vec![path.to_owned()] } else { runs(path)? };
        let weights = self.weights()?;
        for run in &runs {
            if RunConfig::of_model(run)?.method == ENERGY {
                return Ok(Saved::load(run, weights.as_deref())?.onnx()?);
            }
        }
        Err(self.refusal("it has no energy model: give the run of one, or its file"))
    }
}

/// Returns the file with the metadata of the model at `path`.
fn model_file(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let own = ["model.safetensors", "refiner.safetensors"].map(|name| path.join(name));
    let of_runs = || runs(path).ok()?.first().map(|run| run.join("model.safetensors"));
    own.into_iter().find(|file| file.is_file()).or_else(of_runs)
}
