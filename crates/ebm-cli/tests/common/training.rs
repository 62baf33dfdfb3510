//! A small training as a user starts it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::program::{DETECTOR, command, succeeds, text, texts};

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
        succeeds(&["data", "scenes", "--count", "4", "--out", text(&scenes)]);
        case
    }

    /// Sets the number of images in a batch.
    pub fn batches_of(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// A path in the case's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command that trains in the run `run`, or goes on there.
    pub fn train(&self, run: &str, resume: bool) -> Command {
        let mut command =
            command(&["train", "branch", "--config", "mini", "--cache", "--detector", DETECTOR]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        command.args(["--batch-size", &self.batch.to_string()]);
        command.args(["--steps", &self.steps.to_string(), "--checkpoint-every", &self.every.to_string()]);
        command.arg("--annotations").arg(self.path("scenes/annotations.json"));
        command.arg("--images").arg(self.path("scenes/images"));
        command.arg("--run").arg(self.path(run));
        if resume {
            command.arg("--resume");
        }
        command
    }

    /// The trained branch of a run that nothing stopped.
    pub fn uninterrupted(&self) -> Vec<u8> {
        texts(self.train("whole", false).output().unwrap());
        self.branch("whole")
    }

    /// The trained branch of a run.
    pub fn branch(&self, run: &str) -> Vec<u8> {
        std::fs::read(self.path(run).join("ebm.safetensors")).unwrap()
    }
}

/// The steps that the run has logged.
pub fn logged(run: &Path) -> usize {
    std::fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// Waits until the run has logged this number of steps.
pub fn wait_for_steps(run: &Path, steps: usize) {
    let start = Instant::now();
    while logged(run) < steps {
        assert!(start.elapsed() < Duration::from_secs(120), "no step {steps} in {}", run.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}
