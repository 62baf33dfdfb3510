//! A small training as a user starts it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A few generated scenes and the arguments that train a confidence branch on them.
pub struct Case {
    dir: tempfile::TempDir,
    steps: usize,
    every: usize,
    batch: usize,
}

impl Case {
    /// A training of `steps` steps with a checkpoint after each `every`.
    pub fn new(steps: usize, every: usize) -> Self {
        let case = Self { dir: tempfile::tempdir().unwrap(), steps, every, batch: 1 };
        let scenes = case.path("scenes");
        let made =
            ebm(&["data", "scenes", "--count", "4", "--out", scenes.to_str().unwrap()]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        case
    }

    /// Sets the number of images in a batch.
    #[allow(dead_code, reason = "not every test that includes this file needs it")]
    pub fn batches_of(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// A path in the case's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command that trains in the run `run`, or goes on there.
    pub fn train(&self, run: &str, resume: bool) -> Command {
        let mut command = ebm(&["train", "branch", "--config", "mini", "--cache"]);
        command.args(["--batch-size", &self.batch.to_string()]);
        command.args(["--steps", &self.steps.to_string(), "--checkpoint-every", &self.every.to_string()]);
        command.arg("--annotations").arg(self.path("scenes/annotations.json"));
        command.arg("--images").arg(self.path("scenes/images"));
        command.args([
            "--detector",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/detector_mini.safetensors"),
        ]);
        command.arg("--run").arg(self.path(run));
        if resume {
            command.arg("--resume");
        }
        command
    }

    /// The trained branch of a run that nothing stopped.
    #[allow(dead_code, reason = "not every test that includes this file needs it")]
    pub fn uninterrupted(&self) -> Vec<u8> {
        let output = self.train("whole", false).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.branch("whole")
    }

    /// The trained branch of a run.
    pub fn branch(&self, run: &str) -> Vec<u8> {
        std::fs::read(self.path(run).join("ebm.safetensors")).unwrap()
    }
}

/// The program with some arguments and nothing to read.
pub fn ebm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebm"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command
}
