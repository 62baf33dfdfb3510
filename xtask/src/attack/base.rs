//! The sound inputs that cases damage, made once.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::program::{Program, words};

/// Steps of the training that is stopped, resumed and tampered with.
pub const STEPS: usize = 6;
/// A file of the repository that is damaged is no larger, in bytes.
const LARGEST: u64 = 256 << 10;
/// The address space that a case has, in bytes: 2 GiB and what the allocator reserves without using it.
const ADDRESSES: u64 = 3 << 30;

/// Where everything is, and what sound commands make of it.
pub struct Base {
    /// The program.
    pub ebm: PathBuf,
    /// The repository.
    pub root: PathBuf,
    /// What this process made.
    pub dir: PathBuf,
    /// How long a process may take.
    pub patience: Duration,
    /// Hostile archives.
    pub archives: Vec<PathBuf>,
    /// JPEG, PNG, BMP and WebP files.
    pub images: Vec<PathBuf>,
    /// Files of torch, numpy and safetensors.
    pub weights: Vec<PathBuf>,
    /// BIWI's files.
    pub arrays: Vec<PathBuf>,
    /// Of generated scenes.
    pub annotations: Value,
    /// Detections in them.
    pub results: Value,
    /// The branch of a training that nothing stopped.
    pub whole: Vec<u8>,
}

impl Base {
    /// Makes all of it in `dir`.
    pub fn new(ebm: &Path, root: &Path, dir: &Path, patience: Duration) -> Result<Self> {
        let golden = |crates: &[&str], extensions: &[&str]| -> Result<Vec<PathBuf>> {
            let mut found = Vec::new();
            for folder in crates {
                files(&root.join("crates").join(folder), &mut found)?;
            }
            found.retain(|path| {
                extensions.iter().any(|known| path.extension().is_some_and(|own| own == *known))
            });
            found.retain(|path| path.metadata().is_ok_and(|found| found.len() <= LARGEST));
            found.sort();
            ensure!(!found.is_empty(), "nothing to damage in {crates:?}");
            Ok(found)
        };
        let tests = ["ebm-nn/tests/golden", "ebm-detect/tests/golden", "ebm-track/tests/golden"];
        let mut base = Self {
            archives: golden(&["ebm-data/tests/attacks"], &["zip", "tar", "gz"])?,
            images: golden(&["ebm-data/tests/golden/images"], &["jpg", "png", "bmp", "webp"])?,
            weights: golden(&tests, &["pth", "pkl", "safetensors"])?,
            arrays: golden(&["ebm-data/tests/golden/biwi"], &["npz"])?,
            ebm: ebm.to_owned(),
            root: root.to_owned(),
            dir: dir.to_owned(),
            patience,
            annotations: Value::Null,
            results: Value::Null,
            whole: Vec::new(),
        };
        base.make()?;
        Ok(base)
    }

    /// What the program itself makes.
    fn make(&mut self) -> Result<()> {
        self.must(words("data scenes --count 4 --out {}", &[&self.scenes()]))?;
        files(&self.scenes().join("images"), &mut self.images)?;
        self.weights.push(self.detector());
        let (out, data) = (self.dir.join("detections"), self.scenes_arguments());
        let detector = self.detector();
        let evaluate = words("eval detection --detector {} --out {}", &[&detector, &out]);
        self.must([evaluate, data].concat())?;
        let run = self.dir.join("whole");
        self.must(self.training(&run, STEPS))?;
        self.whole = fs::read(run.join("ebm.safetensors")).context("the training's branch")?;
        let read = |path: &Path| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
        self.annotations =
            read(&self.scenes().join("annotations.json")).context("the scenes' annotations")?;
        self.results = read(&out.join("direct.json")).context("the detections")?;
        Ok(())
    }

    /// Runs the program on what is sound.
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
            file_size: None,
            open_files: None,
            streams: "",
            variables: Vec::new(),
            patience: self.patience,
        }
    }

    /// The generated scenes.
    pub fn scenes(&self) -> PathBuf {
        self.dir.join("scenes")
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
    pub fn training(&self, run: &Path, steps: usize) -> Vec<OsString> {
        let (steps, detector) = (steps.to_string(), self.detector());
        let train = words(
            "train branch --config mini --cache --batch-size 1 --steps {} --checkpoint-every 2 --detector {} \
             --run {}",
            &[&steps, &detector, &run],
        );
        [train, self.scenes_arguments()].concat()
    }
}

/// Adds all files below a folder, in the order of their names.
pub fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let place = || format!("cannot list {}", folder.display());
    let mut entries =
        fs::read_dir(folder).with_context(place)?.collect::<Result<Vec<_>, _>>().with_context(place)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type().with_context(place)?.is_dir() {
            files(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut found = Vec::new();
    files(from, &mut found)?;
    for path in found {
        let target = to.join(path.strip_prefix(from).unwrap_or(&path));
        fs::create_dir_all(target.parent().unwrap_or(to))
            .and_then(|()| fs::copy(&path, &target))
            .with_context(|| format!("cannot copy {} to {}", path.display(), target.display()))?;
    }
    Ok(())
}
