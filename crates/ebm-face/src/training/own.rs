//! A network on one's own faces.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::Device;
use ebm_base::Key;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_data::faces::split::Split;
use ebm_data::faces::utkface;
use ebm_data::faces::{Faces, Tolerance, listed};
use ebm_experiment::{Built, Inputs, Measure, Session, Training};
use ebm_train::GradientTask;
use ebm_train::model_file::file_digest;

use super::{Batch, FaceTask, StreamSource, images, targets, whole_network};
use crate::config::ExperimentConfig;
use crate::network::ENERGY;
use crate::reproduce::{choose_refinement, report_repeated};
use crate::saved::{BackboneSource, RunConfig, Saved, save, save_refinement};
use crate::{Error, Result, biwi};

/// Where faces with their targets are.
#[derive(Clone, Debug)]
pub enum FaceSource {
    /// A folder of images with ages.
    Ages {
        /// The folder.
        images: PathBuf,
        /// CSV with the columns `file` and `age`; without it, every image of the folder with the age in its name.
        split: Option<PathBuf>,
        /// Added to each age of `split` where names tell none: 0, or 21 for ages less 21.
        shift: Option<f32>,
    },
    /// A folder of images, with a CSV file of the column `file` and one of each coordinate.
    Listed {
        /// The folder.
        images: PathBuf,
        /// The CSV file.
        split: PathBuf,
    },
    /// Images and poses as FSA-Net's BIWI files have them.
    Npz(PathBuf),
}

impl FaceSource {
    /// Reads the faces, with targets of these coordinates.
    ///
    /// # Errors
    /// [`Error::Data`] when a file cannot be read or too many entries are defective.
    pub fn read(&self, coordinates: &[String]) -> Result<Faces> {
        let tolerance = Tolerance::default();
        Ok(match self {
            Self::Ages { images, split: Some(split), shift } => {
                utkface::load(images, split, *shift, &tolerance)?
            }
            Self::Ages { images, split: None, .. } => utkface::load_directory(images, &tolerance)?,
            Self::Listed { images, split } => {
                let names: Vec<&str> = coordinates.iter().map(String::as_str).collect();
                listed::load(images, split, &names, &tolerance)?
            }
            Self::Npz(path) => biwi::read_npz(path, &tolerance)?,
        })
    }
}

/// A network that is trained end to end on one's own faces, by [`ebm_experiment::train`].
#[derive(Clone, Debug)]
pub struct FaceTraining {
    /// The experiment.
    pub config: ExperimentConfig,
    /// The key of a baseline, or of the energy model.
    pub method: String,
    /// Root of the initial values, the order and the samples.
    pub seed: u64,
    /// The images.
    pub faces: FaceSource,
    /// The share of the images that is kept for validation.
    pub validation: f64,
    /// The backbone's pretrained weights; without them it begins with drawn ones.
    pub weights: Option<PathBuf>,
    /// The run's folder, in which the best network is kept.
    pub run: PathBuf,
}

/// Faces to train on, and others to judge a network by.
pub struct FaceData {
    faces: Arc<Faces>,
    held_out: Arc<Faces>,
    batches: Vec<Batch>,
}

impl FaceTraining {
    /// The settings that the network's file keeps.
    fn saved(&self) -> RunConfig {
        let (method, experiment) = (self.method.clone(), self.config.clone());
        RunConfig {
            method,
            seed: self.seed,
            trunk: BackboneSource::Own(self.config.trunk.clone()),
            experiment,
        }
    }
}

impl Training for FaceTraining {
    type Error = Error;
    type Data = FaceData;
    type Network = FaceTask<StreamSource>;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = &["epochs", "milestones", "decay_epochs"];

    fn settings(&self, _: Option<&FaceData>) -> Result<Option<String>> {
        if self.method != ENERGY {
            self.config.method(&self.method)?;
        }
        Ok(None)
    }

    fn inputs(&self, data: &FaceData) -> Result<Inputs> {
        let mut inputs = Inputs::from([("data_sha256", data.faces.digest())]);
        if let Some(weights) = &self.weights {
            inputs.insert("weights_sha256", file_digest(weights)?);
        }
        Ok(inputs)
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<FaceData> {
        let faces = self.faces.read(&self.config.coordinates)?;
        for defect in &faces.quarantine.defects {
            session.progress.message(&format!("left out: {defect}"));
        }
        let [faces, held_out] = parts(&faces, self.validation)?;
        report_repeated(&held_out, &faces, "validation", session.progress)?;
        let batches = if session.group.is_first() {
            whole_batches(&self.config, &held_out, session.device)?
        } else {
            vec![]
        };
        Ok(FaceData { faces, held_out, batches })
    }

    fn build(&mut self, data: &mut FaceData, session: &mut Session<'_>) -> Result<Built<Self::Network>> {
        let Self { config, method, seed, weights, .. } = &*self;
        let (weights, device, group) = (weights.as_deref(), session.device, session.group);
        let key = Key::new(*seed).split(method);
        let (network, steps) = whole_network(config, method, key, &data.faces, weights, device, group)?;
        Ok(Built { network, settings: self.saved().to_toml()?, steps })
    }

    fn score(&mut self, data: &mut FaceData, network: &Self::Network, _: &mut Session<'_>) -> Result<f64> {
        network.validation_loss(&data.batches, Key::new(self.seed).split("validation"))
    }

    fn keep(&mut self, _: &FaceData, network: &Self::Network) -> Result<()> {
        save(network.store(), &self.run, &self.saved())
    }

    fn finish(&mut self, data: &mut FaceData, session: &mut Session<'_>) -> Result<()> {
        if self.method == ENERGY {
            let saved = Saved::load(&self.run, None)?;
            let ascent = choose_refinement(&saved, &data.held_out, session.progress)?;
            let text = format!("step length {:?} by the validation images", ascent.step_length);
            session.progress.message(&text);
            save_refinement(&ascent, &self.run)?;
        }
        Ok(())
    }
}

/// All images of `faces` with their targets, as they are, in batches on `device`.
fn whole_batches(config: &ExperimentConfig, faces: &Arc<Faces>, device: &Device) -> Result<Vec<Batch>> {
    /// Images of a batch.
    const BATCH: usize = 32;
    let loader = FaceLoaderConfig::in_order(config.input.transform(false), BATCH);
    let mut found = Vec::new();
    for batch in FaceLoader::new(Arc::clone(faces), loader, Key::new(0))?.epoch(0)? {
        let batch = batch?;
        found.push(Batch { x: images(&batch, device)?, y: targets(&batch, device)? });
    }
    Ok(found)
}

/// The images to train on, and those to validate on.
fn parts(faces: &Faces, share: f64) -> Result<[Arc<Faces>; 2]> {
    const NAMES: [&str; 2] = ["train", "validation"];
    let names: Vec<&str> = faces.faces.iter().map(|face| face.name.as_str()).collect();
    let count = (names.len() as f64 * share).round() as usize;
    if !(1..names.len()).contains(&count) {
        let all = names.len();
        let reason = format!(
            "validation {share} of {all} images leaves {count} to validate on; give a share that leaves some for both"
        );
        return Err(Error::config("of the training", reason));
    }
    let split = Split::whole(NAMES[0], &names, 0)?.draw(NAMES[0], NAMES[1], count)?;
    let mut found = split.apply(faces)?;
    Ok(NAMES.map(|name| Arc::new(found.remove(name).unwrap_or_default())))
}
