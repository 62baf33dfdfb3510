//! The splits of a task.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebm_data::faces::generated::{HeadConfig, generate_ages, poses};
use ebm_data::faces::split::Split;
use ebm_data::faces::{Faces, Tolerance, biwi, utkface};
use ebm_seed::Key;
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::config::GeneratedConfig;

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Section 4.3.
    Age,
    /// Section 4.4.
    HeadPose,
}

impl Task {
    /// Its name in configurations.
    pub fn key(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::HeadPose => "head_pose",
        }
    }
}

/// Which images were drawn for validation is not published: these are, for every run.
const SPLIT_SEED: u64 = 2020;
/// The parts of the split.
const TRAIN: &str = "train";
const VALIDATION: &str = "validation";
/// Root of the seeds of generated faces.
const DATA_SEED: u64 = 2020;

/// The images of an experiment.
#[derive(Clone, Debug)]
pub struct Data {
    /// For training.
    pub train: Arc<Faces>,
    /// Step lengths are chosen on these.
    pub validation: Arc<Faces>,
    /// The results are computed on these; without them, on the validation split.
    pub test: Option<Arc<Faces>>,
    /// What was drawn for validation, where it was drawn.
    pub split: Option<Split>,
}

impl Data {
    /// The file under `datasets` that the task's training data are in.
    pub fn source(task: Task, datasets: &Path) -> PathBuf {
        match task {
            Task::Age => datasets.join("utkface/utk_train.csv"),
            Task::HeadPose => datasets.join("biwi/BIWI_train.npz"),
        }
    }

    /// UTKFace in `datasets/utkface`, or FSA-Net's BIWI files in `datasets/biwi`. Validation images are drawn from the training
    /// images: 1 644 of the 13 147 and 1 010 of the 10 613 published ones, and the same share of any others.
    ///
    /// # Errors
    /// When a file is missing or has too many defects. Test images may be missing as a whole.
    pub fn read(task: Task, datasets: &Path, progress: &mut dyn Progress) -> Result<Self> {
        let (all, test, share) = match task {
            Task::Age => {
                let root = datasets.join("utkface");
                let images = root.join("images");
                let all = utkface::load(&images, &root.join("utk_train.csv"), &utkface::UtkOptions::default())?;
                // Anything may be missing here: only a test split that is there as a whole is used.
                let tolerance = Tolerance { max_bad_fraction: 1.0, ..Tolerance::default() };
                let options = utkface::UtkOptions { tolerance, ..utkface::UtkOptions::default() };
                let list = root.join("utk_test.csv");
                let test = if list.is_file() { Some(utkface::load(&images, &list, &options)?) } else { None };
                (all, test, 1644.0 / 13147.0)
            }
            Task::HeadPose => {
                let root = datasets.join("biwi");
                let read = |name: &str| biwi::read_npz(&root.join(name), &biwi::NpzOptions::default());
                let test = root.join("BIWI_test.npz").is_file().then(|| read("BIWI_test.npz")).transpose()?;
                (read("BIWI_train.npz")?, test, 1010.0 / 10613.0)
            }
        };
        for faces in std::iter::once(&all).chain(&test) {
            if let (Some(first), count) = (faces.quarantine.defects.first(), faces.quarantine.defects.len()) {
                progress.message(&format!("{count} entries are left out, the first: {first}"));
            }
        }
        let whole = |test: &Faces| !test.faces.is_empty() && test.quarantine.defects.len() * 1000 <= test.faces.len();
        let test = test.filter(whole);
        if test.is_none() {
            progress.message("The test images are not there: the results are the validation split's.");
        }
        let count = (all.faces.len() as f64 * share).round() as usize;
        let names: Vec<&str> = all.faces.iter().map(|face| face.name.as_str()).collect();
        let split = Split::whole(TRAIN, &names, SPLIT_SEED)?.draw(TRAIN, VALIDATION, count)?;
        let mut parts = split.apply(&all)?;
        let [train, validation] = [TRAIN, VALIDATION].map(|part| parts.remove(part).unwrap_or_default());
        Ok(Self {
            train: Arc::new(train),
            validation: Arc::new(validation),
            test: test.map(Arc::new),
            split: Some(split),
        })
    }

    /// Generated faces of `size` pixels in `root`, made if they are not there yet.
    ///
    /// # Errors
    /// When a file can not be written, or `root` holds something else.
    pub fn generated(
        task: Task,
        root: &Path,
        size: usize,
        sizes: &GeneratedConfig,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let key = Key::new(DATA_SEED).split("faces").split(task.key());
        let config = HeadConfig { size, ..HeadConfig::default() };
        let splits = [("train", sizes.train), ("validation", sizes.validation), ("test", sizes.test)];
        progress.begin("generating faces", splits.len());
        let mut made = Vec::new();
        for (name, count) in splits {
            let (key, name) = (key.split(name), format!("{name}-{size}-{count}"));
            made.push(Arc::new(match task {
                Task::Age => {
                    let ages = generate_ages(&root.join(&name), &config, count, key)?;
                    utkface::load(&ages.images, &ages.split, &utkface::UtkOptions::default())?
                }
                Task::HeadPose => Faces { faces: poses(&config, count, key)?, ..Faces::default() },
            }));
            progress.advance(made.len(), &name);
        }
        progress.end();
        let [train, validation, test] = <[Arc<Faces>; 3]>::try_from(made).unwrap_or_default();
        Ok(Self { train, validation, test: Some(test), split: None })
    }

    /// The images that the results are of.
    pub fn results(&self) -> &Arc<Faces> {
        self.test.as_ref().unwrap_or(&self.validation)
    }

    /// Their name.
    pub fn part(&self) -> &'static str {
        if self.test.is_some() { "test" } else { "validation" }
    }

    /// Leaves the drawn split in the run's directory.
    ///
    /// # Errors
    /// When the file can not be written.
    pub fn record(&self, run: &Path) -> Result<()> {
        match &self.split {
            Some(split) => Ok(split.write(&run.join("split.json"))?),
            None => Ok(()),
        }
    }
}
