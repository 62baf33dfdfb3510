//! Paper scale: training on LaSOT, GOT-10k, TrackingNet and COCO, and results on UAV123.

use std::path::{Path, PathBuf};

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::LoaderConfig;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_data::sequences::sampler::Source;
use ebm_data::sequences::{Dataset, Sequence, SequenceOptions, coco};
use ebm_eval::tracking::{Convention, TestSet};
use ebm_train::Progress;

use super::comparison::{Comparison, Options, Test};
use super::data::{pair_sampler, pairs_key};
use super::method_trainer::MethodTrainer;
use crate::config::ExperimentConfig;
use crate::training::{PairSource, StreamPairs};
use crate::{Error, Result};

/// Returns the paths in the folder `datasets` that paper scale, or its ablation, needs and that are missing. Its
/// folders are `lasot`, `got10k`, `trackingnet`, `coco` and `uav123`. `otb100` and `nfs`, both in the layout of
/// OTB-100, are optional for Table 3.
pub fn missing(is_ablation: bool, datasets: &Path) -> Vec<PathBuf> {
    let training = [
        "lasot",
        "got10k/train",
        VOTTRAIN,
        "trackingnet/TRAIN_0",
        "coco/annotations/instances_train2017.json",
    ];
    let measured: &[&str] = if is_ablation { &["otb100", "nfs"] } else { &["uav123/anno/UAV123"] };
    let needed = training.iter().chain(measured).map(|name| datasets.join(name));
    needed.filter(|path| !path.exists()).collect()
}

/// Trains and compares the box modules as the paper does, with the data in the folder `datasets`. Table 3 is measured
/// on UAV123, and the ablation on OTB-100 and NFS together.
///
/// # Errors
/// When data cannot be read, or a training fails.
pub fn paper(
    config: &ExperimentConfig,
    options: &Options,
    datasets: &Path,
    is_ablation: bool,
    progress: &mut dyn Progress,
) -> Result<Comparison> {
    let trainer = MethodTrainer::new(config, options)?;
    progress.begin("reading datasets", 1);
    let batch = config.training.batch_size;
    let sources = training_sources(datasets, progress)?;
    let sampler = pair_sampler(config, config.training.pairs_per_epoch.max(batch), sources)?;
    let tests = tests(is_ablation, datasets)?;
    progress.end();

    let pairs = |seed| {
        let stream = |_| {
            let loader = LoaderConfig::in_order(PairRecipe::ATOM, batch);
            let pairs =
                StreamPairs::new(&sampler, loader, pairs_key(seed), &trainer.backbone, &options.device)?;
            Ok(Box::new(pairs) as Box<dyn PairSource>)
        };
        Ok((config.methods.iter().map(stream).collect::<Result<_>>()?, usize::MAX))
    };
    trainer.compare(&tests, pairs, progress)
}

/// List of GOT-10k's sequences to train on. The whole folder `train` includes sequences that trackers are validated on.
const VOTTRAIN: &str = "got10k/vottrain.txt";

/// Reads the datasets to train on, each with the same weight.
fn training_sources(root: &Path, progress: &mut dyn Progress) -> Result<Vec<Source>> {
    let settings = SequenceOptions::train();
    let annotations = root.join("coco/annotations/instances_train2017.json");
    let images =
        CocoDataset::load(&annotations, &root.join("coco/train2017"), &LoadOptions::new(Purpose::Train))?;
    let mut sources = Vec::new();
    for found in [
        Dataset::LasotTrain.load(&root.join("lasot"), &settings)?,
        Dataset::Got10kTrain(root.join(VOTTRAIN)).load(&root.join("got10k"), &settings)?,
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

fn tests(is_ablation: bool, root: &Path) -> Result<Vec<Test>> {
    let load = |set: TestSet, folder: &str| Ok::<_, Error>(set.load(&root.join(folder))?.sequences);
    if is_ablation {
        // The supplement evaluates both datasets together; the prefix keeps their names apart.
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
