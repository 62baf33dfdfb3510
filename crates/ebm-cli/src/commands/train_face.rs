//! `ebm train age` and `ebm train head-pose`: a network on one's own faces, end to end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_data::faces::split::Split;
use ebm_data::faces::{Faces, Tolerance, biwi, utkface};
use ebm_experiment::Validation;
use ebm_face::network::ENERGY;
use ebm_face::reproduce::choose_refinement;
use ebm_face::saved::{RunConfig, Saved, save, save_refinement};
use ebm_face::training::{Batch, FaceTask, StreamSource, WholeNetwork, WholeTraining, whole_batches};
use ebm_seed::Key;
use ebm_train::BoxError;

use super::train_run::{Session, TrainingArgs};

/// What both are asked for.
#[derive(Args)]
pub struct FaceArgs {
    #[command(flatten)]
    training: TrainingArgs,
    /// The method, by its key in the settings: a baseline such as gaussian or direct_l2, or ebm.
    #[arg(long, default_value = ENERGY)]
    method: String,
    /// Pretrained weights of the trunk; without them it begins with drawn ones.
    #[arg(long)]
    trunk: Option<PathBuf>,
    /// The share of the images that is kept for validation.
    #[arg(long, default_value_t = 0.1)]
    validation: f64,
}

/// Arguments of `ebm train age`.
#[derive(Args)]
pub struct AgeArgs {
    #[command(flatten)]
    face: FaceArgs,
    /// The directory of the images.
    #[arg(long)]
    images: PathBuf,
    /// CSV with the columns file and age; without it, every image of the directory with the age in its name.
    #[arg(long)]
    split: Option<PathBuf>,
}

/// Arguments of `ebm train head-pose`.
#[derive(Args)]
pub struct PoseArgs {
    #[command(flatten)]
    face: FaceArgs,
    /// Images and poses as FSA-Net's BIWI files have them.
    #[arg(long)]
    npz: PathBuf,
}

/// `ebm train age`.
pub fn age(args: &AgeArgs, session: &mut Session<'_>) -> Result<()> {
    let faces = match &args.split {
        Some(split) => utkface::load(&args.images, split, &utkface::UtkOptions::default())?,
        None => utkface::load_directory(&args.images, &Tolerance::default())?,
    };
    train(&args.face, "age_paper", &faces, session)
}

/// `ebm train head-pose`.
pub fn pose(args: &PoseArgs, session: &mut Session<'_>) -> Result<()> {
    let faces = biwi::read_npz(&args.npz, &biwi::NpzOptions::default())?;
    train(&args.face, "head_pose_paper", &faces, session)
}

impl AgeArgs {
    /// How it is trained.
    pub fn training(&self) -> &TrainingArgs {
        &self.face.training
    }
}

impl PoseArgs {
    /// How it is trained.
    pub fn training(&self) -> &TrainingArgs {
        &self.face.training
    }
}

fn train(args: &FaceArgs, own: &str, faces: &Faces, session: &mut Session<'_>) -> Result<()> {
    let common = &args.training;
    for defect in &faces.quarantine.defects {
        session.say(&format!("left out: {defect}"));
    }
    let config: ebm_face::config::ExperimentConfig = common.settings(own)?;
    let [faces, held_out] = parts(faces, args.validation)?;
    let (weights, device, group) = (args.trunk.as_deref(), &session.device.clone(), &session.group.clone());
    let (method, seed) = (args.method.as_str(), common.seed());
    let training = WholeTraining { config: &config, method, seed, faces: &faces, weights, device, group };
    let WholeNetwork { mut task, steps, run } = training.start()?;
    let batches = if group.is_first() { whole_batches(&config, &held_out, device)? } else { Vec::new() };
    let (text, key) = (run.to_toml()?, Key::new(seed).split("validation"));
    let mut judge = HeldOut { batches, key, config: run, run: common.run() };
    common.train(&text, steps, &mut task, &mut judge, session)?;
    if !group.is_first() {
        return Ok(());
    }
    let saved = Saved::load(common.run(), None)?;
    if args.method == ENERGY {
        let ascent = choose_refinement(&saved, &held_out, &mut session.progress)?;
        session.say(&format!("step length {:?} by the validation images", ascent.step_length));
        save_refinement(&ascent, common.run())?;
    }
    println!("{}", common.run().display());
    Ok(())
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

/// Images that are not trained on.
struct HeldOut<'a> {
    batches: Vec<Batch>,
    key: Key,
    config: RunConfig,
    run: &'a Path,
}

impl Validation<FaceTask<StreamSource>> for HeldOut<'_> {
    fn loss(&mut self, task: &FaceTask<StreamSource>) -> Result<f64, BoxError> {
        Ok(task.validation_loss(&self.batches, self.key)?)
    }

    fn keep(&mut self, task: &FaceTask<StreamSource>) -> Result<(), BoxError> {
        Ok(save(task.store(), self.run, &self.config)?)
    }
}
