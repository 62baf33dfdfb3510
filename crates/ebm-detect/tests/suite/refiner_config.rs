//! Settings of refiners.

use ebm_detect::config::{RefinerConfig, Settings};

#[test]
fn contradictions_are_refused() {
    let refused = |text: &str| {
        RefinerConfig::parse("mine", &format!("extends = 'refiner'\n{text}")).unwrap_err().to_string()
    };
    assert!(refused("network.strides = [4, 16]").contains("in a row"));
    assert!(refused("network.strides = [2, 4]").contains("in a row"));
    assert!(refused("network.map_scales = [1.0]").contains("network.map_scales needs one entry"));
    let of_one = "objective.proposal.gaussian = { sigmas = [0.1], dim = 1 }";
    assert!(refused(of_one).contains("four coordinates"));
    assert!(refused("network.kernel = 2").contains("network.kernel is 2"));
    assert!(refused("network.views = []").contains("network.views is empty"));
    assert!(refused("network.coarsest_level = 3").contains("network.coarsest_level is no index"));
    assert!(
        refused("ascent.steps = 1001")
            .contains("ascent.steps = 1001; it must be a whole number from 0 to 1000")
    );
    assert!(refused("input.long_side = 32").contains("input.long_side"));
    assert!(refused("training.step = 1").contains("did you mean `steps`"));
}
