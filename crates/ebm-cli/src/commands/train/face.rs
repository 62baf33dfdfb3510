//! `ebm train age` and `ebm train head-pose`: a network on one's own faces, end to end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail, ensure};
use clap::Args;
use ebm_data::faces::split::Split;
use ebm_data::faces::{Faces, Tolerance, listed, utkface};
use ebm_experiment::{Built, Inputs, Measure, Session, Training};
use ebm_face::config::ExperimentConfig;
use ebm_face::network::ENERGY;
use ebm_face::reproduce::{choose_refinement, report_repeated};
use ebm_face::saved::{RunConfig, Saved, save, save_refinement};
use ebm_face::training::{Batch, FaceTask, StreamSource, WholeNetwork, WholeTraining, whole_batches};
use ebm_seed::Key;

use ebm_train::model_file::file_digest;

use super::TrainArgs;
use super::run::RunArgs;

/// Arguments of both, of which `images` differ.
#[derive(Args)]
pub struct FaceArgs<I: Args> {
    #[command(flatten)]
    run: RunArgs,
    /// The method, by its key in the settings: a baseline such as gaussian or direct_l2, or ebm.
    #[arg(long, default_value = ENERGY)]
    method: String,
    /// Pretrained weights of the trunk; without them it begins with drawn ones.
    #[arg(long)]
    trunk: Option<PathBuf>,
    /// The share of the images that is kept for validation.
    #[arg(long, default_value_t = 0.1)]
    validation: f64,
    #[command(flatten)]
    images: I,
}

/// Images of faces with their targets.
pub trait FaceImages: Args {
    /// The name of the embedded settings.
    const SETTINGS: &'static str;

    /// Reads them, with targets of these coordinates.
    fn read(&self, coordinates: &[String]) -> Result<Faces>;
}

/// Images with ages.
#[derive(Args)]
pub struct AgeImages {
    /// The directory of the images.
    #[arg(long)]
    images: PathBuf,
    /// CSV with the columns file and age; without it, every image of the directory with the age in its name.
    #[arg(long)]
    split: Option<PathBuf>,
}

impl FaceImages for AgeImages {
    const SETTINGS: &'static str = "age_paper";

    fn read(&self, _: &[String]) -> Result<Faces> {
        Ok(match &self.split {
            Some(split) => utkface::load(&self.images, split, None, &Tolerance::default())?,
            None => utkface::load_directory(&self.images, &Tolerance::default())?,
        })
    }
}

/// Images with poses.
#[derive(Args)]
pub struct PoseImages {
    /// Images and poses as FSA-Net's BIWI files have them.
    #[arg(long, required_unless_present = "split", conflicts_with = "split")]
    npz: Option<PathBuf>,
    /// The directory of the images of --split.
    #[arg(long, requires = "split")]
    images: Option<PathBuf>,
    /// CSV with the column file and one of each coordinate: yaw, pitch and roll, or with Pointing'04's settings pan and
    /// tilt; in degrees.
    #[arg(long, requires = "images")]
    split: Option<PathBuf>,
}

impl PoseImages {
    /// What was given, for messages.
    pub fn source(&self) -> Option<&Path> {
        self.npz.as_deref().or(self.split.as_deref())
    }
}

impl FaceImages for PoseImages {
    const SETTINGS: &'static str = "head_pose_paper";

    fn read(&self, coordinates: &[String]) -> Result<Faces> {
        let names: Vec<&str> = coordinates.iter().map(String::as_str).collect();
        Ok(match (&self.npz, &self.images, &self.split) {
            (_, Some(images), Some(split)) => listed::load(images, split, &names, &Tolerance::default())?,
            (Some(npz), ..) => ebm_face::biwi::read_npz(npz, &Tolerance::default())?,
            _ => bail!("give --npz, or --images and --split"),
        })
    }
}

/// Faces to train on, and others to be judged by.
pub struct FaceData {
    config: ExperimentConfig,
    faces: Arc<Faces>,
    held_out: Arc<Faces>,
    batches: Vec<Batch>,
    /// What the network's file says, as soon as there is a network.
    run: Option<RunConfig>,
}

impl<I: FaceImages> TrainArgs for FaceArgs<I> {
    fn run(&self) -> &RunArgs {
        &self.run
    }
}

impl<I: FaceImages> Training for FaceArgs<I> {
    type Error = Error;
    type Data = FaceData;
    type Network = FaceTask<StreamSource>;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = &["epochs", "milestones", "decay_epochs"];

    /// The trunk's sizes are among them, which its file tells.
    fn settings(&self, _: Option<&FaceData>) -> Result<Option<String>> {
        let config: ExperimentConfig = self.run.settings(I::SETTINGS)?;
        if self.method != ENERGY {
            config.method(&self.method)?;
        }
        Ok(None)
    }

    fn inputs(&self, data: &FaceData) -> Result<Inputs> {
        let mut inputs = Inputs::from([("data_sha256", data.faces.digest())]);
        if let Some(trunk) = &self.trunk {
            inputs.insert("weights_sha256", file_digest(trunk)?);
        }
        Ok(inputs)
    }

    fn open(&mut self, session: &mut Session<'_>) -> Result<FaceData> {
        let config: ExperimentConfig = self.run.settings(I::SETTINGS)?;
        let faces = self.images.read(&config.coordinates)?;
        for defect in &faces.quarantine.defects {
            session.progress.message(&format!("left out: {defect}"));
        }
        let [faces, held_out] = parts(&faces, self.validation)?;
        report_repeated(&held_out, &faces, "validation", session.progress)?;
        let batches = if session.group.is_first() {
            whole_batches(&config, &held_out, session.device)?
        } else {
            vec![]
        };
        Ok(FaceData { config, faces, held_out, batches, run: None })
    }

    fn build(&mut self, data: &mut FaceData, session: &mut Session<'_>) -> Result<Built<Self::Network>> {
        let (weights, method, seed) = (self.trunk.as_deref(), self.method.as_str(), self.run.seed);
        let (FaceData { config, faces, .. }, Session { device, group, .. }) = (&*data, session);
        let training = WholeTraining { config, method, seed, faces, weights, device, group };
        let WholeNetwork { task, steps, run } = training.start()?;
        let settings = run.to_toml()?;
        data.run = Some(run);
        Ok(Built { network: task, settings, steps })
    }

    fn score(&mut self, data: &mut FaceData, network: &Self::Network, _: &mut Session<'_>) -> Result<f64> {
        let key = Key::new(self.run.seed).split("validation");
        Ok(network.validation_loss(&data.batches, key)?)
    }

    fn keep(&mut self, data: &FaceData, network: &Self::Network) -> Result<()> {
        let run = data.run.as_ref().context("a network is kept after it was built")?;
        Ok(save(network.store(), &self.run.run, run)?)
    }

    fn finish(&mut self, data: &mut FaceData, session: &mut Session<'_>) -> Result<()> {
        if self.method == ENERGY {
            let saved = Saved::load(&self.run.run, None)?;
            let ascent = choose_refinement(&saved, &data.held_out, session.progress)?;
            let text = format!("step length {:?} by the validation images", ascent.step_length);
            session.progress.message(&text);
            save_refinement(&ascent, &self.run.run)?;
        }
        Ok(())
    }
}

/// The images to train on, and those to validate on.
fn parts(faces: &Faces, share: f64) -> Result<[Arc<Faces>; 2]> {
    const NAMES: [&str; 2] = ["train", "validation"];
    let names: Vec<&str> = faces.faces.iter().map(|face| face.name.as_str()).collect();
    let count = (names.len() as f64 * share).round() as usize;
    ensure!(
        0 < count && count < names.len(),
        "--validation {share} of {} images leaves {count} to validate on; give a share that leaves some for both",
        names.len()
    );
    let split = Split::whole(NAMES[0], &names, 0)?.draw(NAMES[0], NAMES[1], count)?;
    let mut found = split.apply(faces)?;
    let mut part = |name: &str| found.remove(name).map(Arc::new).with_context(|| format!("no {name} images"));
    Ok([part(NAMES[0])?, part(NAMES[1])?])
}
