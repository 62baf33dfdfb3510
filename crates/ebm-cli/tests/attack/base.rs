//! The sound inputs that cases damage, made once.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::program::{Program, words};

/// Steps of the training that is stopped and resumed.
const STEPS: &str = "6";
/// A file of the repository that is damaged is no larger, in bytes.
const LARGEST: u64 = 256 << 10;
/// The address space that a case has, in bytes: 2 GiB and what the allocator reserves without using it.
const ADDRESSES: u64 = 3 << 30;

/// Paths of sound inputs, and the files that commands made from them.
pub struct Base {
    /// The program.
    pub ebm: PathBuf,
    /// The repository.
    pub root: PathBuf,
    /// Folder of the files that this process made.
    pub dir: PathBuf,
    /// Longest time that a process may take.
    pub patience: Duration,
    /// PNG files.
    pub pictures: Vec<PathBuf>,
    /// Files of torch, numpy and safetensors.
    pub weights: Vec<PathBuf>,
    /// The branch of a training that nothing stopped.
    pub whole: Vec<u8>,
}

impl Base {
    /// Makes all of it in `dir`.
    pub fn new(ebm: &Path, root: &Path, dir: &Path, patience: Duration) -> Result<Self> {
        let golden = |folders: &[&str], extensions: &[&str]| -> Result<Vec<PathBuf>> {
            let mut found = Vec::new();
            for folder in folders {
                found.extend(files(&root.join("crates").join(folder))?);
            }
            found.retain(|path| {
                path.extension().is_some_and(|own| extensions.iter().any(|known| own == *known))
            });
            found.retain(|path| path.metadata().is_ok_and(|found| found.len() <= LARGEST));
            ensure!(!found.is_empty(), "nothing to damage in {folders:?}");
            Ok(found)
        };
        let tests = ["ebm-detect/tests/golden", "ebm-nn/tests/golden", "ebm-track/tests/golden"];
        let mut base = Self {
            pictures: golden(&["ebm-data/tests/golden/images"], &["png"])?,
            weights: golden(&tests, &["pth", "pkl", "safetensors"])?,
            ebm: ebm.to_owned(),
            root: root.to_owned(),
            dir: dir.to_owned(),
            patience,
            whole: Vec::new(),
        };
        base.weights.push(base.detector());
        base.must(words("data scenes --count 4 --out {}", &[&base.scenes()]))?;
        let run = base.dir.join("whole");
        base.must(base.training(&run))?;
        base.whole = fs::read(run.join("ebm.safetensors")).context("the training's branch")?;
        Ok(base)
    }

    /// Runs the program on sound inputs, where it must succeed.
    fn must(&self, arguments: Vec<OsString>) -> Result<()> {
        let outcome = self.program(arguments, &self.dir).run()?;
        ensure!(outcome.code == Some(0), "what is sound fails: {}", outcome.said);
        Ok(())
    }

    /// The program with these arguments in the folder `directory`, under the limits of every case.
    pub fn program(&self, mut arguments: Vec<OsString>, directory: &Path) -> Program {
        arguments.insert(0, self.ebm.clone().into());
        Program {
            words: arguments,
            directory: directory.to_owned(),
            memory: ADDRESSES,
            patience: self.patience,
        }
    }

    /// The generated scenes.
    pub fn scenes(&self) -> PathBuf {
        self.dir.join("scenes")
    }

    /// A picture of them.
    pub fn scene(&self) -> PathBuf {
        self.scenes().join("images/000001.jpg")
    }

    /// The committed detector.
    pub fn detector(&self) -> PathBuf {
        self.root.join("weights/detector_mini.safetensors")
    }

    /// `--annotations` and `--images` of the scenes.
    pub fn scenes_arguments(&self) -> Vec<OsString> {
        let (annotations, images) = (self.scenes().join("annotations.json"), self.scenes().join("images"));
        words("--annotations {} --images {}", &[&annotations, &images])
    }

    /// The arguments of a training of a branch in the folder `run`.
    pub fn training(&self, run: &Path) -> Vec<OsString> {
        let train = words(
            "train branch --config mini --cache --batch-size 1 --steps {} --checkpoint-every 2 --detector {} \
             --run {}",
            &[&STEPS, &self.detector(), &run],
        );
        [train, self.scenes_arguments()].concat()
    }
}

/// Returns the entries of a folder, in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut entries: Vec<PathBuf> = entries.with_context(|| format!("cannot list {}", folder.display()))?;
    entries.sort();
    Ok(entries)
}

/// Returns the files of a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_file()).collect())
}
