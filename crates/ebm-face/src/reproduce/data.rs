//! Data of the tasks and their splits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebm_base::Key;
use ebm_data::faces::split::{Split, folder_of};
use ebm_data::faces::{Faces, Tolerance, pointing04, utkface};
use ebm_synth::faces::{generate_ages, poses};
use ebm_train::Progress;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::config::GeneratedConfig;

/// A task: age or head pose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Age (Section 4.3).
    Age,
    /// Head pose (Section 4.4).
    HeadPose,
}

impl Task {
    /// Returns the name of the task in configurations.
    pub fn key(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::HeadPose => "head_pose",
        }
    }
}

/// Seed of the validation split, the same for every run. The paper does not publish its split.
const SPLIT_SEED: u64 = 2020;
/// Names of the parts of a split.
const TRAIN: &str = "train";
const VALIDATION: &str = "validation";
const TEST: &str = "test";
const REPORT: &str = "report";
/// Number of folds of the people of Pointing'04.
const FOLDS: usize = 5;
/// Number of people in each fold whose photographs choose λ.
const VALIDATION_PEOPLE: usize = 2;
/// Seed of the generated faces.
const DATA_SEED: u64 = 2020;

/// Images of an experiment.
#[derive(Clone, Debug)]
pub struct Data {
    /// Faces to train on.
    pub train: Arc<Faces>,
    /// Faces to choose the step length on.
    pub validation: Arc<Faces>,
    /// Faces to compute the results on. Without them, the validation split serves.
    pub test: Option<Arc<Faces>>,
    /// All faces of a set that is divided into folds; their features are computed once for all folds.
    pub whole: Option<Arc<Faces>>,
    /// The split, if it was drawn here.
    pub split: Option<Split>,
}

impl Data {
    /// Returns the path of the task's training data below `datasets`.
    pub fn source(task: Task, datasets: &Path) -> PathBuf {
        match task {
            Task::Age => datasets.join("utkface/utk_train.csv"),
            Task::HeadPose => datasets.join("biwi/BIWI_train.npz"),
        }
    }

    /// Reads UTKFace from `datasets/utkface`, or BIWI from `datasets/biwi` in FSA-Net's two files.
    ///
    /// Validation images are drawn from the training images: 1 644 of UTKFace's 13 147, 1 010 of BIWI's 10 613, and the
    /// same fraction if their number differs. If the test images are missing, `report` training images replace them.
    ///
    /// # Errors
    /// When a file is missing or has too many defects. The test images may be missing as a whole.
    pub fn read(task: Task, datasets: &Path, report: usize, progress: &mut dyn Progress) -> Result<Self> {
        let source = Self::source(task, datasets);
        let root = source.parent().unwrap_or(datasets);
        let (train, test, share) = match task {
            Task::Age => {
                let (images, test) = (root.join("images"), root.join("utk_test.csv"));
                let train = utkface::load(&images, &source, None, &Tolerance::default())?;
                // Any number may be missing here: an incomplete test split is not used.
                let tolerance = Tolerance { max_bad_fraction: 1.0, ..Tolerance::default() };
                let test =
                    test.is_file().then(|| utkface::load(&images, &test, None, &tolerance)).transpose()?;
                (train, test, 1644.0 / 13147.0)
            }
            Task::HeadPose => {
                let read = |path: &Path| crate::biwi::read_npz(path, &Tolerance::default());
                let test = root.join("BIWI_test.npz");
                (read(&source)?, test.is_file().then(|| read(&test)).transpose()?, 1010.0 / 10613.0)
            }
        };
        std::iter::once(&train).chain(&test).for_each(|faces| report_defects(faces, progress));
        let usable = |test: &Faces| test.quarantine.defects.len() * 1000 <= test.faces.len();
        let test = test.filter(|test| !test.faces.is_empty() && usable(test));
        let count = (train.faces.len() as f64 * share).round() as usize;
        let split = whole(&train)?.draw(TRAIN, VALIDATION, count)?;
        let is_drawn = test.is_none() && report > 0;
        let split = if is_drawn { split.draw(TRAIN, REPORT, report)? } else { split };
        if test.is_none() {
            let part = if is_drawn { REPORT } else { VALIDATION };
            progress.message(&format!("The test images are not there: the results are the {part} split's."));
        }
        let mut drawn = split.apply(&train)?;
        let mut part = |name: &str| Arc::new(drawn.remove(name).unwrap_or_default());
        let (train, validation) = (part(TRAIN), part(VALIDATION));
        let test = test.map(Arc::new).or_else(|| is_drawn.then(|| part(REPORT)));
        let data = Self { train, validation, test, whole: None, split: Some(split) };
        report_repeated(&data.validation, &data.train, VALIDATION, progress)?;
        if let Some(test) = &data.test {
            report_repeated(test, &data.train, data.part(), progress)?;
        }
        Ok(data)
    }

    /// Reads Pointing'04 from the folder `root` in five folds over its fifteen people. Each fold has ten people to
    /// train on, two to validate on, and three for the results.
    ///
    /// # Errors
    /// When the folder is missing, has too many defects, or fewer people than folds.
    pub fn folds(root: &Path, progress: &mut dyn Progress) -> Result<Vec<Self>> {
        let all = Arc::new(pointing04::load(root, pointing04::SCALE, &Tolerance::default())?);
        report_defects(&all, progress);
        let mut folds = Vec::new();
        for split in whole(&all)?.folds(TRAIN, TEST, FOLDS, folder_of)? {
            let split = split.draw_groups(TRAIN, VALIDATION, VALIDATION_PEOPLE, folder_of)?;
            let mut drawn = split.apply(&all)?;
            let mut part = |name: &str| Arc::new(drawn.remove(name).unwrap_or_default());
            let (train, validation, test) = (part(TRAIN), part(VALIDATION), Some(part(TEST)));
            let whole = Some(Arc::clone(&all));
            folds.push(Self { train, validation, test, whole, split: Some(split) });
        }
        Ok(folds)
    }

    /// Reads generated faces of `size` × `size` pixels from `root`, and generates them first if they are missing.
    ///
    /// # Errors
    /// When a file cannot be written, or `root` holds something else.
    pub fn generated(
        task: Task,
        root: &Path,
        size: usize,
        sizes: &GeneratedConfig,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let key = Key::new(DATA_SEED).split("faces").split(task.key());
        let splits = [("train", sizes.train), ("validation", sizes.validation), ("test", sizes.test)];
        progress.begin("generating faces", splits.len());
        let mut made = Vec::new();
        for (name, count) in splits {
            let (key, name) = (key.split(name), format!("{name}-{size}-{count}"));
            made.push(Arc::new(match task {
                Task::Age => {
                    let ages = generate_ages(&root.join(&name), size, count, key)?;
                    utkface::load(&ages.images, &ages.split, None, &Tolerance::default())?
                }
                Task::HeadPose => Faces { faces: poses(size, count, key)?, ..Faces::default() },
            }));
            progress.advance(made.len(), &name);
        }
        progress.end();
        let [train, validation, test] = <[Arc<Faces>; 3]>::try_from(made).unwrap_or_default();
        Ok(Self { train, validation, test: Some(test), whole: None, split: None })
    }

    /// Returns the faces that the results are computed on.
    pub fn results(&self) -> &Arc<Faces> {
        self.test.as_ref().unwrap_or(&self.validation)
    }

    /// Returns the name of the split that the results are computed on: `test`, `validation` or `report`.
    pub fn part(&self) -> &'static str {
        let drawn = self.split.as_ref().is_some_and(|split| split.part(REPORT).is_some());
        match &self.test {
            Some(_) if drawn => REPORT,
            Some(_) => TEST,
            None => VALIDATION,
        }
    }

    /// Writes the drawn split to `split.json` in the folder `run`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record(&self, run: &Path) -> Result<()> {
        match &self.split {
            Some(split) => Ok(split.write(&run.join("split.json"))?),
            None => Ok(()),
        }
    }
}

/// Reports the number of entries that were left out, and the first of them.
fn report_defects(faces: &Faces, progress: &mut dyn Progress) {
    if let (Some(first), count) = (faces.quarantine.defects.first(), faces.quarantine.defects.len()) {
        progress.message(&format!("{count} entries are left out, the first: {first}"));
    }
}

/// Reports how many of `faces`, the split called `name`, are also among the training images `train`.
///
/// # Errors
/// As [`Faces::repeated_in`].
pub fn report_repeated(faces: &Faces, train: &Faces, name: &str, progress: &mut dyn Progress) -> Result<()> {
    let repeated = faces.repeated_in(train)?;
    if let Some(first) = repeated.first() {
        let (count, all, first) = (repeated.len(), faces.faces.len(), &first.name);
        progress.message(&format!(
            "{count} of the {name} split's {all} images are, byte for byte, among those learnt from, the first {first}"
        ));
    }
    Ok(())
}

/// Returns the split that has all faces in the training part.
fn whole(faces: &Faces) -> Result<Split> {
    let names: Vec<&str> = faces.faces.iter().map(|face| face.name.as_str()).collect();
    Ok(Split::whole(TRAIN, &names, SPLIT_SEED)?)
}
