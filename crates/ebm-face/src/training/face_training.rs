//! Training of a network on a user's own faces.

use std::path::PathBuf;
use std::sync::Arc;

use candle_core::Device;
use ebm_base::Key;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_data::faces::split::Split;
use ebm_data::faces::utkface;
use ebm_data::faces::{Faces, Tolerance, listed};
use ebm_experiment::{Built, Inputs, Measure, Opened, Session, Training};
use ebm_train::GradientTask;
use ebm_train::model_file::file_digest;

use super::{Batch, FaceTask, StreamSource, end_to_end_task, images, targets};
use crate::config::ExperimentConfig;
use crate::network::ENERGY;
use crate::reproduce::{choose_refinement, report_repeated};
use crate::saved::{BackboneSource, RunConfig, Saved, save, save_refinement};
use crate::{Error, Result, biwi};

/// A source of faces with targets.
#[derive(Clone, Debug)]
pub enum FaceSource {
    /// A folder of images with ages.
    Ages {
        /// Folder of the images.
        images: PathBuf,
        /// CSV file with the columns `file` and `age`. Without it, every image with an age in its name is read.
        split: Option<PathBuf>,
        /// Years to add to each age of `split`. If `None`, the ages in the file names decide between 0 and 21.
        shift: Option<f32>,
    },
    /// A folder of images and a CSV file with the column `file` and one column for each coordinate.
    Listed {
        /// Folder of the images.
        images: PathBuf,
        /// Path of the CSV file.
        split: PathBuf,
    },
    /// An npz file of images and poses, in the format of FSA-Net's BIWI files.
    Npz(PathBuf),
}

impl FaceSource {
    /// Reads the faces, with the target coordinates named in `coordinates`.
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

/// The end-to-end training of a network on a user's own faces, for [`ebm_experiment::train`].
#[derive(Clone, Debug)]
pub struct FaceTraining {
    /// Settings.
    pub config: ExperimentConfig,
    /// Key of a baseline, or of the energy model.
    pub method: String,
    /// Seed of the initial values, the order and the samples.
    pub seed: u64,
    /// Images and targets.
    pub faces: FaceSource,
    /// Fraction of the images that is held out for validation.
    pub validation: f64,
    /// Pretrained weights of the backbone. Without them, the initial weights are random.
    pub weights: Option<PathBuf>,
    /// Folder of the run, which receives the best network.
    pub run: PathBuf,
}

/// Faces to train on, and faces held out for validation.
pub struct FaceData {
    faces: Arc<Faces>,
    held_out: Arc<Faces>,
    batches: Vec<Batch>,
}

impl FaceTraining {
    /// Returns the settings that the network's file stores.
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

    fn open(&mut self, session: &mut Session<'_>) -> Result<Opened<FaceData>> {
        let faces = self.faces.read(&self.config.coordinates)?;
        for defect in &faces.quarantine.defects {
            session.progress.message(&format!("left out: {defect}"));
        }
        let [faces, held_out] = split(&faces, self.validation)?;
        report_repeated(&held_out, &faces, "validation", session.progress)?;
        let batches = if session.group.is_first() {
            batches_in_order(&self.config, &held_out, session.device)?
        } else {
            vec![]
        };
        let mut inputs = Inputs::from([("data_sha256", faces.digest())]);
        if let Some(weights) = &self.weights {
            inputs.insert("weights_sha256", file_digest(weights)?);
        }
        Ok(Opened { data: FaceData { faces, held_out, batches }, inputs, is_judged: true })
    }

    fn build(&mut self, data: &mut FaceData, session: &mut Session<'_>) -> Result<Built<Self::Network>> {
        let Self { config, method, seed, weights, .. } = &*self;
        let (weights, device, group) = (weights.as_deref(), session.device, session.group);
        let key = Key::new(*seed).split(method);
        let (network, steps) = end_to_end_task(config, method, key, &data.faces, weights, device, group)?;
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

/// Returns all `faces` with their targets, without augmentation, in batches on `device`.
fn batches_in_order(config: &ExperimentConfig, faces: &Arc<Faces>, device: &Device) -> Result<Vec<Batch>> {
    /// Images in a batch.
    const BATCH: usize = 32;
    let loader = FaceLoaderConfig::in_order(config.input.transform(false), BATCH);
    let mut found = Vec::new();
    for batch in FaceLoader::new(Arc::clone(faces), loader, Key::new(0))?.epoch(0)? {
        let batch = batch?;
        found.push(Batch { x: images(&batch, device)?, y: targets(&batch, device)? });
    }
    Ok(found)
}

/// Splits `faces` into images to train on and a fraction `share` to validate on.
fn split(faces: &Faces, share: f64) -> Result<[Arc<Faces>; 2]> {
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
