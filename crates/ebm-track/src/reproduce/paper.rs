//! Paper scale: LaSOT, GOT-10k, TrackingNet and COCO to train on, UAV123 to measure on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::Source;
use ebm_data::sequences::{Dataset, Sequence, SequenceOptions, coco};
use ebm_eval::tracking::{Convention, TestSet};
use ebm_train::Progress;

use super::chosen::Chosen;
use super::compare::{Comparison, Setup, Test};
use super::data::{loader_of, pair_sampler, pairs_key};
use super::find_backbone;
use super::study::Study;
use crate::backbone::Backbone;
use crate::config::ExperimentConfig;
use crate::training::{CropStream, StreamPairs};
use crate::{Error, Result};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct PaperOptions {
    /// The directory with `lasot`, `got10k`, `trackingnet`, `coco` and `uav123`; `otb100` and `nfs`, laid out as
    /// OTB-100 is, are measured on where they are there.
    pub datasets: PathBuf,
    /// The directory with the ResNet-18.
    pub weights: PathBuf,
    /// Seeds of each box module and its tracker.
    pub seeds: u64,
    /// Checkpoints, metrics, trained modules.
    pub run: PathBuf,
    /// Whether an interrupted run in `run` goes on.
    pub resume: bool,
    /// Other trackers: a name and a folder of boxes.
    pub results: Vec<(String, PathBuf)>,
    /// What is compared.
    pub study: Study,
    /// Where box modules are trained. Trackers run on the CPU.
    pub device: Device,
}

/// What paper scale needs and is not there.
///
/// # Errors
/// When the directory of weights can not be listed.
pub fn missing(options: &PaperOptions) -> Result<Vec<PathBuf>> {
    let training = [
        "lasot",
        "got10k/train",
        VOTTRAIN,
        "trackingnet/TRAIN_0",
        "coco/annotations/instances_train2017.json",
    ];
    let measured: &[&str] = match options.study {
        Study::Methods => &["uav123/anno/UAV123"],
        Study::Sigma => &["otb100", "nfs"],
    };
    let needed = training.iter().chain(measured).map(|name| options.datasets.join(name));
    let mut missing: Vec<PathBuf> = needed.filter(|path| !path.exists()).collect();
    if find_backbone(&options.weights)?.is_none() {
        missing.push(options.weights.join("resnet18.safetensors"));
    }
    Ok(missing)
}

/// Trains and compares the box modules as the paper does.
///
/// # Errors
/// When data can not be read, or a training fails.
pub fn paper(
    config: &ExperimentConfig,
    options: &PaperOptions,
    progress: &mut dyn Progress,
) -> Result<Comparison> {
    let device = &options.device;
    let path = find_backbone(&options.weights)?.ok_or_else(|| {
        Error::weights(&options.weights, "there is no resnet18*.safetensors or .pth; see docs/weights.md")
    })?;
    let backbone = Arc::new(Backbone::load(&path, device)?);
    let place = Setup { config, run: &options.run, device, backbone, path: &path, resume: options.resume };
    progress.begin("reading datasets", 1);
    let batch = config.training.batch_size;
    let sampler = pair_sampler(config, batch, training_sources(options, progress)?)?;
    let tests = tests(options)?;
    progress.end();

    let variants = options.study.variants(config)?;
    let mut outcome = Comparison::default();
    for seed in 0..options.seeds {
        for variant in &variants {
            let loader = loader_of(PairRecipe::ATOM, batch, Arc::clone(&sampler), pairs_key(seed))?;
            let crops = CropStream::new(loader, device.clone());
            let pairs = StreamPairs::new(crops, Arc::clone(&place.backbone));
            let trained = place.train(variant, seed, pairs, |_, _| Ok(Chosen::default()), progress)?;
            place.measure(&tests, variant, trained, &mut outcome, progress)?;
        }
    }
    outcome.finish(&tests, &options.results)
}

/// The list of GOT-10k's sequences to train on.
const VOTTRAIN: &str = "got10k/vottrain.txt";

/// What of GOT-10k is trained on. Its `train` has the sequences that trackers are validated on as well, so
/// that all of it is never taken unasked.
fn got10k_split(datasets: &Path) -> Result<Dataset> {
    let listed = datasets.join(VOTTRAIN);
    if listed.is_file() {
        return Ok(Dataset::Got10kTrain(listed));
    }
    let reason = "this list of GOT-10k's training sequences is missing, and all of train/ would include those that are validated on \
                  (votval): take the published list, ltr/data_specs/got10k_vot_train_split.txt of \
                  https://github.com/visionml/pytracking with 7 086 places in train/list.txt, and put it there"
        .to_owned();
    Err(Error::input(listed.display(), reason))
}

/// Each dataset with the same weight.
fn training_sources(options: &PaperOptions, progress: &mut dyn Progress) -> Result<Vec<Source>> {
    let (root, settings) = (&options.datasets, SequenceOptions::train());
    let split = got10k_split(root)?;
    let annotations = root.join("coco/annotations/instances_train2017.json");
    let images =
        CocoDataset::load(&annotations, &root.join("coco/train2017"), &LoadOptions::new(Purpose::Train))?;
    let mut sources = Vec::new();
    for found in [
        Dataset::LasotTrain.load(&root.join("lasot"), &settings)?,
        split.load(&root.join("got10k"), &settings)?,
        Dataset::TrackingNetTrain.load(&root.join("trackingnet"), &settings)?,
    ] {
        for defect in &found.quarantine.defects {
            progress.message(&format!("left out: {defect}"));
        }
        sources.push(Source { sequences: found.sequences, weight: 1.0 });
    }
    sources.push(Source { sequences: coco::sequences(&images), weight: 1.0 });
    Ok(sources)
}

fn tests(options: &PaperOptions) -> Result<Vec<Test>> {
    let root = &options.datasets;
    let load = |set: TestSet, folder: &str| Ok::<_, Error>(set.load(&root.join(folder))?.sequences);
    if options.study == Study::Sigma {
        // The supplement takes the two together; the prefix keeps their names apart.
        let mut sequences = load(TestSet::Otb100, "otb100")?;
        let prefixed = |sequence: Sequence| Sequence { name: format!("nfs_{}", sequence.name), ..sequence };
        sequences.extend(load(TestSet::Own, "nfs")?.into_iter().map(prefixed));
        let (name, convention) = ("OTB-100 and NFS".to_owned(), Convention::pytracking());
        return Ok(vec![Test { name, sequences, convention }]);
    }
    let mut tests = Vec::new();
    for (set, name, folder) in [
        (TestSet::Uav123, "UAV123", "uav123"),
        (TestSet::Otb100, "OTB-100", "otb100"),
        (TestSet::Own, "NFS", "nfs"),
    ] {
        if set == TestSet::Uav123 || root.join(folder).is_dir() {
            let (name, sequences) = (name.to_owned(), load(set, folder)?);
            tests.push(Test { name, sequences, convention: set.convention() });
        }
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn got10k_without_the_list_of_its_training_split_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("got10k/train")).unwrap();
        let error = got10k_split(dir.path()).unwrap_err().to_string();
        for part in ["got10k/vottrain.txt", "votval", "got10k_vot_train_split.txt"] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        let listed = dir.path().join(VOTTRAIN);
        std::fs::write(&listed, "0\n2\n").unwrap();
        assert_eq!(got10k_split(dir.path()).unwrap(), Dataset::Got10kTrain(listed));
    }
}
