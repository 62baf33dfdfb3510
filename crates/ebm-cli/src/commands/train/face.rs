//! `ebm train age` and `ebm train head-pose`: a network on one's own faces, end to end.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use ebm_face::network::ENERGY;
use ebm_face::training::{FaceSource, FaceTraining};

use super::run::RunArgs;

/// Arguments of both, of which `images` differ.
#[derive(Args)]
pub struct FaceArgs<I: Args> {
    #[command(flatten)]
    pub run: RunArgs,
    /// The method, by its key in the settings: a baseline such as gaussian or direct_l2, or ebm.
    #[arg(long, default_value = ENERGY)]
    method: String,
    /// Pretrained weights of the trunk, of the kind that the settings name; without them it begins with drawn ones.
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

    /// Where they are.
    fn source(&self) -> Result<FaceSource>;
}

/// Images with ages.
#[derive(Args)]
pub struct AgeImages {
    /// The directory of the images.
    #[arg(long)]
    pub images: PathBuf,
    /// CSV with the columns file and age, or age less 21 as Cao et al. have it; without it, every image of the directory
    /// with the age in its name.
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
    /// What they ask for.
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
