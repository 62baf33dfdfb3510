//! Settings of trackers.

use ebm_track::config::{ExperimentConfig, Settings};
use ebm_track::tracker::TrackerConfig;
use ebm_track::training::BoxTraining;

#[test]
fn an_unknown_key_is_named() {
    let text = "extends = 'paper'\n[tracker]\nserach_factor = 4.0\n";
    let error = ExperimentConfig::parse("mine", text).unwrap_err().to_string();
    assert!(error.contains("did you mean `search_factor`?"), "{error}");
}

#[test]
fn a_refinement_that_can_not_climb_is_refused() {
    let text = "extends = 'paper'\nmethods.ebm.refinement.step_length = [-1e-4, 1e-3]";
    let error = ExperimentConfig::parse("mine", text).unwrap_err().to_string();
    assert!(error.contains("methods.ebm.refinement.step_length[0] = -0.0001; it must be"), "{error}");
}

#[test]
fn the_paper_is_trained_as_the_paper_says() {
    let config = ExperimentConfig::embedded("paper").unwrap();
    let energy = config.method(ExperimentConfig::ENERGY).unwrap();
    assert_eq!(energy.objective.gaussian().unwrap().sigmas(), [[0.05; 4], [0.5; 4]]);
    assert_eq!((energy.refinement.steps, energy.refinement.step_length), (10, [2e-4, 1e-3]));
    let BoxTraining { batch_size, epochs, learning_rate, .. } = config.training;
    assert_eq!((batch_size, epochs, learning_rate, config.narrowed), (64, 50, 1e-3, 1));
    assert_eq!((config.tracker, config.repetitions), (TrackerConfig::default(), 5));
}
