//! `ebm predict`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use ebm_detect::{Detector, DetectorOptions};
use ebm_face::prediction::{AGE, HEAD_POSE};

use super::predict_detection::{self, DetectionArgs};
use super::predict_face::{self, FaceArgs};
use super::predict_tracking::{self, TrackingArgs};
use crate::device::DeviceArgs;

/// What to predict.
#[derive(Subcommand)]
pub enum Predict {
    /// Boxes, before and after refinement, as JSON lines and as pictures.
    Detection(DetectionArgs),
    /// One target through a video: its boxes, and pictures.
    Tracking(TrackingArgs),
    /// Ages of faces with their 90 % regions, as JSON lines and as pictures.
    Age(FaceArgs),
    /// Poses of heads, the same.
    HeadPose(FaceArgs),
}

/// A trained detector.
#[derive(Args)]
pub struct ModelArgs {
    /// Embedded configuration (mini, paper, torchvision) or a TOML file, in place of the one that the
    /// detector's file holds.
    #[arg(long, requires = "detector")]
    config: Option<String>,
    /// Detector weights: safetensors, or a .pth or .pkl file of torchvision, maskrcnn-benchmark, Detectron or
    /// FastestDet. Without it, FastestDet with COCO's 80 classes, whose weights are in this program.
    #[arg(long)]
    detector: Option<PathBuf>,
    /// Weights of a branch: a confidence, to refine with, or a density in the place of the regression.
    #[arg(long, requires = "detector")]
    head: Option<PathBuf>,
    /// Method of the branch, by key: ebm, iou_net, gaussian, mixture4, …; the branch says it itself, and
    /// another is refused.
    #[arg(long, requires = "head")]
    method: Option<String>,
    /// Factor of the configured step lengths, in place of the one that the branch's training chose.
    #[arg(long)]
    step_factor: Option<f64>,
    #[command(flatten)]
    device: DeviceArgs,
}

impl ModelArgs {
    /// The detector's file, for messages.
    pub fn weights_name(&self) -> String {
        self.detector.as_deref().map_or_else(|| "the detector".into(), |path| path.display().to_string())
    }

    /// The detector that the arguments name, with its branch.
    pub fn open(&self) -> Result<Detector> {
        let Some(weights) = &self.detector else { return Ok(Detector::bundled(&self.device.open()?)?) };
        let options = DetectorOptions {
            config: self.config.as_deref().map(super::config).transpose()?,
            branch: self.head.clone(),
            method: self.method.clone(),
            step_factor: self.step_factor,
            maps: self.device.maps(),
            device: self.device.open()?,
        };
        Ok(Detector::open_with(weights, &options)?)
    }
}

/// The images that the arguments name: files, and of folders every JPEG and PNG file in them by name.
pub fn image_files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in arguments {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = images_in(path)?;
        ensure!(!found.is_empty(), "{} has no JPEG or PNG file", path.display());
        files.extend(found);
    }
    Ok(files)
}

/// The JPEG and PNG files in a folder, by name.
pub fn images_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot list {}; give a folder with images", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        if ending.is_some_and(|ending| matches!(ending.as_str(), "jpg" | "jpeg" | "png")) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// What the pictures of these images are called, without an ending: the file's name where no other image has
/// it, else the whole path, so that none overwrites another's.
pub fn picture_names(images: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let whole = |path: &PathBuf| {
        let parts = path.components().filter_map(|part| match part {
            std::path::Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            std::path::Component::ParentDir => Some("..".to_owned()),
            _ => None,
        });
        parts.collect::<Vec<_>>().join("_")
    };
    let alone = |path: &&PathBuf| images.iter().filter(|other| stem(other) == stem(path)).count() == 1;
    images.iter().map(|path| if alone(&path) { stem(path) } else { whole(path) }).collect()
}

/// Runs the command.
pub fn run(command: Predict) -> Result<()> {
    match command {
        Predict::Detection(args) => predict_detection::run(&args),
        Predict::Tracking(args) => predict_tracking::run(&args),
        Predict::Age(args) => predict_face::run(&args, AGE),
        Predict::HeadPose(args) => predict_face::run(&args, HEAD_POSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_images() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.PNG", "a.jpeg", "notes.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let here = |name: &str| dir.path().join(name);
        let files = image_files(&[PathBuf::from("x.bmp"), dir.path().to_owned()]).unwrap();
        assert_eq!(files, [PathBuf::from("x.bmp"), here("a.jpeg"), here("b.PNG")]);
        std::fs::create_dir(here("empty")).unwrap();
        assert!(image_files(&[here("empty")]).unwrap_err().to_string().contains("no JPEG or PNG"));
    }

    #[test]
    fn no_picture_has_the_name_of_another() {
        let names = |paths: &[&str]| picture_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["a/x.jpg", "b/y.jpg"]), ["x", "y"]);
        assert_eq!(names(&["d1/x.jpg", "d2/x.jpg", "/d2/z.png"]), ["d1_x.jpg", "d2_x.jpg", "z"]);
        assert_eq!(names(&["x.jpg", "x.png"]), ["x.jpg", "x.png"]);
    }
}
