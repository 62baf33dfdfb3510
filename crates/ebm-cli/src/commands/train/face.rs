//! `ebm train age` and `ebm train head-pose`: a network trained end to end on the user's faces.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use ebm_face::network::ENERGY;
use ebm_face::training::{FaceSource, FaceTraining};

use super::run::RunArgs;

/// Arguments of both commands, with `images` for the task's data.
#[derive(Args)]
pub struct FaceArgs<I: Args> {
    #[command(flatten)]
    pub run: RunArgs,
    /// Method, by its key in the settings: a baseline such as gaussian or direct_l2, or ebm.
    #[arg(long, default_value = ENERGY)]
    method: String,
    /// Pretrained weights of the backbone that the settings name. By default its weights are initialised at random.
    #[arg(long)]
    trunk: Option<PathBuf>,
    /// Fraction of the images that is held out for validation.
    #[arg(long, default_value_t = 0.1)]
    validation: f64,
    #[command(flatten)]
    images: I,
}

/// Images of faces with their targets.
pub trait FaceImages: Args {
    /// Name of the embedded settings.
    const SETTINGS: &'static str;

    /// Returns the source of the images.
    fn source(&self) -> Result<FaceSource>;
}

/// Images with ages.
#[derive(Args)]
pub struct AgeImages {
    /// Folder of the images.
    #[arg(long)]
    pub images: PathBuf,
    /// CSV with the columns file and age, or age less 21 as in Cao et al. By default every image in the folder, with
    /// the age in its name.
    #[arg(long)]
    pub split: Option<PathBuf>,
}

impl FaceImages for AgeImages {
    const SETTINGS: &'static str = "age_paper";

    fn source(&self) -> Result<FaceSource> {
        Ok(FaceSource::Ages { images: self.images.clone(), split: self.split.clone(), shift: None })
    }
}

/// Images with poses.
#[derive(Args)]
pub struct PoseImages {
    /// File with images and poses in the format of FSA-Net's BIWI files.
    #[arg(long, required_unless_present = "split", conflicts_with = "split")]
    npz: Option<PathBuf>,
    /// Folder of the images of --split.
    #[arg(long, requires = "split")]
    images: Option<PathBuf>,
    /// CSV with the column file and a column for each coordinate in degrees: yaw, pitch and roll, or pan and tilt with
    /// Pointing'04's settings.
    #[arg(long, requires = "images")]
    split: Option<PathBuf>,
}

impl PoseImages {
    /// Returns the given file, for messages.
    pub fn given(&self) -> Option<&Path> {
        self.npz.as_deref().or(self.split.as_deref())
    }
}

impl FaceImages for PoseImages {
    const SETTINGS: &'static str = "head_pose_paper";

    fn source(&self) -> Result<FaceSource> {
        Ok(match (&self.npz, &self.images, &self.split) {
            (_, Some(images), Some(split)) => {
                FaceSource::Listed { images: images.clone(), split: split.clone() }
            }
            (Some(npz), ..) => FaceSource::Npz(npz.clone()),
            _ => bail!("give --npz, or --images and --split"),
        })
    }
}

impl<I: FaceImages> FaceArgs<I> {
    /// Returns the training that the arguments describe.
    pub fn training(&self) -> Result<FaceTraining> {
        Ok(FaceTraining {
            config: self.run.settings(I::SETTINGS)?,
            method: self.method.clone(),
            seed: self.run.seed,
            faces: self.images.source()?,
            validation: self.validation,
            weights: self.trunk.clone(),
            run: self.run.run.clone(),
        })
    }
}
