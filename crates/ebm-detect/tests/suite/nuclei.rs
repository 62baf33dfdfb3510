//! The detector of nuclei in `weights/`, whose body is in another file, on an image that comes with the repository.

use std::path::{Path, PathBuf};

use candle_core::Device;
use ebm_detect::Detector;
use ebm_detect::weights::WeightFile;
use ebm_eval::{GroundTruth, tracking::overlap};

fn in_tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

#[test]
fn nuclei_of_a_validation_image_are_found() {
    let detector = in_tree("weights/detector_nuclei.safetensors");
    let detector = Detector::open(detector).unwrap();
    let truth = GroundTruth::read(&in_tree("datasets/nuclei/val.json")).unwrap();
    let own: Vec<_> = truth.boxes.iter().filter(|object| object.image_id == truth.images[0]).collect();
    let image = ebm_data::decode::read_image(&in_tree("datasets/nuclei/images/03398329ced0.jpg")).unwrap();
    let found = detector.detect(&image).unwrap();
    let is_found = |bbox: &[f64; 4]| found.iter().any(|f| f.score >= 0.5 && overlap(&f.bbox, bbox) >= 0.5);
    let right = own.iter().filter(|object| is_found(&object.bbox)).count();
    assert!(own.len() >= 5 && 10 * right >= 8 * own.len(), "{right} of {}", own.len());
}

#[test]
fn a_detector_without_its_body_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("detector_nuclei.safetensors");
    std::fs::copy(in_tree("weights/detector_nuclei.safetensors"), &alone).unwrap();
    let refused = || WeightFile::open(&alone, &Device::Cpu).err().unwrap().to_string();
    assert!(refused().contains("refiner.safetensors"), "{}", refused());
    let other = in_tree("weights/detector_mini.safetensors");
    std::fs::copy(other, dir.path().join("refiner.safetensors")).unwrap();
    assert!(refused().contains("does not hold the body"), "{}", refused());
    std::fs::copy(in_tree("weights/refiner.safetensors"), dir.path().join("refiner.safetensors")).unwrap();
    WeightFile::open(&alone, &Device::Cpu).unwrap();
}
