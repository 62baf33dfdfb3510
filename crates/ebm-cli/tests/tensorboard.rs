//! `ebm train --tensorboard`: the curves of a training as events.

use crate::common::training;

use training::Case;

#[test]
fn tensorboard_has_the_curves_of_a_training() {
    let case = Case::new(20, 10);
    let output = case.train("run", false).arg("--tensorboard").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metrics = std::fs::read_to_string(case.path("run/metrics.jsonl")).unwrap();
    let events = std::fs::read(case.path("run/tensorboard/events.out.tfevents.0.ebm")).unwrap();
    let named = |name: &[u8]| events.windows(name.len()).filter(|part| *part == name).count();
    assert!(metrics.lines().count() > 1, "{metrics}");
    assert_eq!(named(b"\x0a\x04loss"), metrics.lines().count());
}
