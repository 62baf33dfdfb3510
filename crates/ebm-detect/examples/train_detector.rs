//! Trains a detector on annotated images, and detects the objects in a photo:
//! `cargo run --release --example train_detector -- STEPS FOLDER ANNOTATIONS.json IMAGES PHOTO`.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};

use candle_core::Device;
use ebm_detect::Detector;
use ebm_detect::config::{ExperimentConfig, Settings};
use ebm_detect::training::{
    DetectorTraining, Group, ImageFiles, Run, RunSpec, Session, TrainingOptions, train,
};

/// Trains for `steps` steps on the images of the COCO file `annotations`, which are in `images`. Returns the path of
/// the weights, in a new run of `folder`.
pub fn trained(
    folder: &Path,
    annotations: &Path,
    images: &Path,
    steps: usize,
) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut config = ExperimentConfig::embedded("mini")?;
    config.base.set_steps(steps);
    let file = folder.join("detector/detector.safetensors");
    let options = TrainingOptions::new(ImageFiles::coco(annotations, images), &file);
    let mut training =
        DetectorTraining { config, own_classes: true, body: None, partial_body: false, options };
    let run = Run { spec: RunSpec::new(folder, "detector", "", steps, 0), validate_every: 0 };
    let mut session = Session { group: &Group::alone(), device: &Device::Cpu, progress: &mut () };
    train(&mut training, &run, &mut session)?;
    Ok(file)
}

#[allow(dead_code, reason = "the test of this example calls what is above")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [steps, folder, annotations, images, photo] = &arguments[..] else {
        return Err("give STEPS FOLDER ANNOTATIONS.json IMAGES PHOTO".into());
    };
    let file = trained(folder.as_ref(), annotations.as_ref(), images.as_ref(), steps.parse()?)?;
    for found in Detector::open(file)?.detect(&ebm_data::decode::read_upright(photo.as_ref())?)? {
        println!("{} {:.2} {:?}", found.name(), found.score, found.bbox);
    }
    Ok(())
}
