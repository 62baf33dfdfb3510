//! The peers' side: the interpreter that has PyTorch, the script, the versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use ebm_nn::device::Choice;
use ebm_nn::ops::instruction_sets;
use serde::{Deserialize, Serialize};

use super::work::Task;

/// The script that the interpreter is given; the program works without a checkout.
pub(crate) const SCRIPT: &str = include_str!("peer.py");

/// What to do where there is no PyTorch.
const REMEDY: &str = "install it (`pip install torch --index-url https://download.pytorch.org/whl/cpu`) \
     or name an interpreter that has it with --python PATH";

/// An interpreter that has PyTorch.
#[derive(Debug)]
pub struct Python {
    path: PathBuf,
    /// What it says of itself.
    pub versions: Versions,
}

/// What the interpreter says of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Versions {
    pub python: String,
    pub torch: String,
    /// The runtimes of exported networks that are there, and their versions.
    #[serde(default)]
    pub runtimes: BTreeMap<String, String>,
    /// The instruction set that PyTorch chose.
    pub instructions: String,
    /// The largest resident size of a process that only imports PyTorch.
    pub import_mib: Option<u64>,
}

impl Python {
    /// Asks the interpreter at `path`, a name or a path.
    ///
    /// # Errors
    /// When it cannot be started or has no PyTorch.
    pub fn find(path: &Path) -> Result<Self> {
        let remedy = || format!("there is no PyTorch to compare with: {REMEDY}");
        let output = script(path)
            .arg("probe")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", path.display()))
            .with_context(remedy)?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
            bail!("{}: {}: {last}", remedy(), path.display());
        }
        let versions = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} does not answer as Python does", path.display()))
            .with_context(remedy)?;
        Ok(Self { path: path.to_owned(), versions })
    }

    /// The process of a task in one form. A task that reads pictures needs their folder as one argument more.
    ///
    /// # Errors
    /// When the task cannot be written as JSON.
    pub fn worker(&self, task: Task, form: &str, threads: usize, device: Choice) -> Result<Command> {
        let mut command = script(&self.path);
        let threads = threads.to_string();
        command.args(["work", &serde_json::to_string(&task)?, form, &threads, &device.to_string()]);
        command.env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
        if instruction_sets()?.is_limited {
            // As ours.
            command.env("ATEN_CPU_CAPABILITY", "avx2").env("ONEDNN_MAX_CPU_ISA", "AVX2");
        }
        Ok(command)
    }
}

fn script(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]);
    command
}
