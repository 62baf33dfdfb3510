//! Settings of detectors.

use ebm_detect::config::{ExperimentConfig, Settings};

#[test]
fn contradictions_are_refused() {
    let refused = |text: &str| {
        ExperimentConfig::parse("mine", &format!("extends = 'mini'\n{text}")).unwrap_err().to_string()
    };
    assert!(refused("detector.num_classes = 1").contains("num_classes"));
    assert!(refused("confidence.steps = 0").contains("confidence.steps = 0; it must be a whole number"));
    assert!(refused("detector.rpn.anchor_size = 3").contains("did you mean `anchor_sizes`"));
    let both = "[methods.ebm.density]\nkind = 'gaussian'\ndim = 4";
    assert!(refused(both).contains("methods.ebm: a density or a confidence"));
    assert!(refused("methods.ebm.confidence.objective.samples = 3").contains("num_samples"));
    let decay = refused("methods.ebm.confidence.step_decay = 1.5");
    assert!(decay.contains("methods.ebm.confidence.step_decay = 1.5; it must be a number"), "{decay}");
}

#[test]
fn a_method_is_found_by_its_key() {
    let config = ExperimentConfig::embedded("mini").unwrap();
    let energy = config.method("ebm").unwrap();
    assert_eq!(config.training(energy).unwrap().learning_rate, 0.01);
    assert_eq!(config.training(config.method("direct").unwrap()), None);
    let message = config.method("iounet").unwrap_err().to_string();
    assert!(message.contains("did you mean `iou_net`?") && message.contains("dsm"), "{message}");
}
