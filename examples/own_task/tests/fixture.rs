//! Trains on the small pictures of `fixture/`. The program fails where it guesses no better than a median.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

#[test]
fn it_learns_to_count_the_nuclei_of_the_fixture() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixture");
    let run = tempfile::tempdir().unwrap();
    let run = run.path().join("run");
    let mut program = Command::new(env!("CARGO_BIN_EXE_own-task"));
    let ended = program.arg(fixture).arg(&run).args(["steps=200", "validate_every=50"]).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert!(figures["mae"].as_f64() < figures["mae_of_guess"].as_f64(), "{figures}");
    assert!(run.join("best.safetensors").is_file() && run.join("density.png").is_file());
}
