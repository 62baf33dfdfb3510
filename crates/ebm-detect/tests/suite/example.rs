//! The example `train_detector` in small.

use ebm_base::Key;
use ebm_detect::Detector;
use ebm_synth::scenes::{self, SceneConfig};

#[path = "../../examples/train_detector.rs"]
mod train_detector;

#[test]
fn a_program_trains_a_detector_through_this_crate_alone() {
    let dir = tempfile::tempdir().unwrap();
    let set = scenes::generate(&dir.path().join("scenes"), &SceneConfig::default(), 4, Key::new(2)).unwrap();
    let file = train_detector::trained(dir.path(), &set.annotations, &set.images, 1).unwrap();
    let detector = Detector::open(file).unwrap();
    assert_eq!(detector.classes().len(), 6);
    let image = ebm_data::decode::read_image(&set.images.join("000001.jpg")).unwrap();
    assert!(detector.detect(&image).is_ok());
    let again = train_detector::trained(dir.path(), &set.annotations, &set.images, 1).unwrap_err();
    assert!(again.to_string().contains("already holds a run"), "{again}");
}
