//! `ebm export`: a trained energy model as ONNX files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_detect::BoxRefiner;
use ebm_detect::weights::REFINER;
use ebm_face::prediction::{AGE, HEAD_POSE, Predictor, PredictorOptions};
use ebm_face::reproduce::runs;
use ebm_nn::onnx::SplitNetwork;
use ebm_train::ModelMetadata;

use crate::model_path::ModelPath;

/// Arguments of `ebm export`.
#[derive(Args)]
pub struct ExportArgs {
    /// A trained energy model of ages or head poses, as its run or its file, or the file of a refiner of boxes; or
    /// hub:OWNER/NAME.
    model: ModelPath,
    /// Where the files go: of model.onnx, model_features.onnx makes g_x of an image, and model_head.onnx f of that and y.
    output: PathBuf,
    /// The backbone's weights, if they are no longer where they were in training.
    #[arg(long)]
    weights: Option<ModelPath>,
    /// Replace files that are there.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<()> {
    let stem = args.output.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.filter(|_| args.output.extension().is_some_and(|extension| extension == "onnx"));
    let stem = stem.with_context(|| {
        format!("{}: let the output's name end in .onnx, as model.onnx", args.output.display())
    })?;
    let places = ["features", "head"].map(|part| args.output.with_file_name(format!("{stem}_{part}.onnx")));
    if let Some(there) = places.iter().find(|place| place.exists() && !args.force) {
        bail!("{} is there already; give another name, or --force to replace it", there.display());
    }
    let SplitNetwork { features, head } = args.network()?;
    for (place, bytes) in places.iter().zip([features, head]) {
        write_atomic(place, &bytes)?;
        println!("{}", place.display());
    }
    Ok(())
}

impl ExportArgs {
    fn network(&self) -> Result<SplitNetwork> {
        let given = self.model.given().display();
        let path = self.model.local()?;
        let of_face = |title: &str| {
            let weights = self.weights.as_ref().map(ModelPath::file).transpose()?;
            let options = PredictorOptions { weights, ..PredictorOptions::default() };
            Ok(Predictor::open(&path, title, &options)?.energy().onnx()?)
        };
        let file = model_file(&path);
        let task = match &file {
            Some(file) => ModelMetadata::read(file)?.map(|said| said.task),
            None => None,
        };
        match (task.as_deref(), &file) {
            (Some(REFINER), Some(file)) => {
                ensure!(self.weights.is_none(), "--weights: a refiner's body is in its own file");
                Ok(BoxRefiner::open(file)?.onnx()?)
            }
            (Some(AGE), _) => of_face(AGE),
            (Some(HEAD_POSE), _) => of_face(HEAD_POSE),
            (Some(other), _) => bail!(
                "{given} is a model for {other}; energy models of ages and head poses and refiners of boxes have an ONNX form"
            ),
            (None, _) => bail!(
                "{given} does not say what it is; give a run of `ebm train age`, `head-pose` or `refiner`, or its file"
            ),
        }
    }
}

/// The file that says what the model at `path` is for.
fn model_file(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let own = ["model.safetensors", "refiner.safetensors"].map(|name| path.join(name));
    let of_runs = || runs(path).ok()?.first().map(|run| run.join("model.safetensors"));
    own.into_iter().find(|file| file.is_file()).or_else(of_runs)
}
