//! Weights made elsewhere, as files of ours.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ebm_nn::{
    import::{self, LoadPolicy},
    mobilefacenet::{FaceEmbedding, MobileFaceNet},
    params::ParamStore,
    resnet::{Block, Norm, ResNet, ResNetConfig},
};
use ebm_seed::Key;
use ebm_train::{Class, Metadata};

use super::{
    family::Family,
    file::WeightFile,
    fit::Network,
    metadata::{detector_metadata, fastest_det_metadata},
};
use crate::{
    config::{DetectorConfig, ExperimentConfig, Settings},
    error::{Error, Result},
};

/// What [`convert`] found and wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Whose names the file had.
    pub family: Family,
    /// The embedded configuration that the weights belong to, if it is one of them.
    pub configuration: Option<String>,
    /// The number of tensors written.
    pub tensors: usize,
    /// The number of scalars in them.
    pub parameters: usize,
    /// The file's own names of what was left out: anchors, counters, a classifier.
    pub unused: Vec<String>,
}

/// The key of a converted file's metadata that says whose names it had, beside what
/// [`ModelMetadata`](ebm_train::ModelMetadata) says.
const FAMILY: &str = "family";

/// What a conversion is told beside the two files.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions<'a> {
    /// The weights' configuration. Without it a detector's file or its family decides; a ResNet needs none.
    pub config: Option<&'a ExperimentConfig>,
    /// The classes that the detector finds, in place of those that its file names.
    pub classes: Option<Vec<Class>>,
    /// Whether to write half precision.
    pub half: bool,
}

/// Checks the weights at `input` (see [`import::load`]) against the network that they are of, and writes them
/// to the safetensors file `output` under our names, with their family and, of a detector, all that a trained
/// one's file says. `output` appears whole or not at all; what is there is replaced.
///
/// # Errors
/// [`Error::Weights`] when the names are of no [`Family`] or are not exactly the network's, when the
/// convention is another than the configuration's, or when `output` is `input`; else when a file cannot be
/// read or written.
pub fn convert(input: &Path, output: &Path, options: &ConvertOptions<'_>) -> Result<Conversion> {
    let refuse = |reason: &str| Err(Error::Weights { path: input.to_owned(), reason: reason.to_owned() });
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same(input, output) {
        return refuse("this is the input too, and would be lost; give another name for the output");
    }
    let file = WeightFile::open(input, &Device::Cpu)?;
    let (mut metadata, configuration) = match file.family {
        Some(Family::ResNet) => {
            check_resnet(&file)?;
            (resnet_metadata(&file.all_metadata), None)
        }
        Some(Family::MobileFaceNet) => {
            check_mobilefacenet(&file)?;
            (Metadata::new(), None)
        }
        Some(Family::FastestDet) => {
            file.fastest_det()?;
            let known = file.metadata.as_ref().map(|found| &found.classes[..]).unwrap_or_default();
            let classes = options.classes.as_deref().unwrap_or(known);
            (fastest_det_metadata(&file.fastest_det_config()?, classes)?.to_metadata()?, None)
        }
        Some(Family::Ours) => {
            return refuse("a branch that was trained here; it is used as it is, with --head");
        }
        _ => check_detector(&file, options)?,
    };
    let Some(family) = file.family else { return refuse("its names are nobody's") };
    metadata.insert(FAMILY.to_owned(), family.name().to_owned());
    let mut tensors = file.tensors;
    if options.half {
        import::halve(&mut tensors)?;
    }
    import::save_safetensors_with(output, &tensors, &metadata)?;
    Ok(Conversion {
        family,
        configuration,
        tensors: tensors.len(),
        parameters: tensors.values().map(Tensor::elem_count).sum(),
        unused: file.unused,
    })
}

/// The metadata of the detector in `file` and its configuration's name, after all of it was checked.
fn check_detector(file: &WeightFile, options: &ConvertOptions<'_>) -> Result<(Metadata, Option<String>)> {
    let config = options.config.map_or_else(|| file.configuration(), |given| Ok(given.clone()))?;
    file.detector(&config.detector)?;
    let (seed, classes) =
        file.metadata.as_ref().map(|found| (found.seed, &found.classes[..])).unwrap_or_default();
    let metadata = detector_metadata(&config, seed, options.classes.as_deref().unwrap_or(classes))?;
    Ok((metadata.to_metadata()?, embedded_name(&config.detector).map(str::to_owned)))
}

/// The embedded configuration of this network, if there is one.
fn embedded_name(config: &DetectorConfig) -> Option<&'static str> {
    let same = |name: &&str| ExperimentConfig::embedded(name).is_ok_and(|known| known.detector == *config);
    ExperimentConfig::EMBEDDED.iter().map(|(name, _)| *name).find(same)
}

/// Refuses what is not exactly MobileFaceNet with its embedding.
fn check_mobilefacenet(file: &WeightFile) -> Result<()> {
    let store = ParamStore::new(Key::new(0));
    let vb = store.var_builder(DType::F32, &Device::Cpu);
    MobileFaceNet::new(MobileFaceNet::NORM, &vb)?;
    FaceEmbedding::new(MobileFaceNet::NORM, &vb)?;
    let report = store.load(&file.tensors, LoadPolicy::LENIENT)?;
    file.check_exact(&report, Network::Other("MobileFaceNet with MXNet's names"))
}

/// What is known of a ResNet beside its tensors, but for the exponents of a fixed point that it no longer
/// has.
fn resnet_metadata(metadata: &Metadata) -> Metadata {
    let kept = metadata.iter().filter(|(key, _)| !key.ends_with(".frac"));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Refuses what is not exactly a residual network; its blocks are told from the names.
fn check_resnet(file: &WeightFile) -> Result<()> {
    // More than any published network has; the network that is built to compare with stays small.
    const MAX: usize = 256;
    let has = |name: &str| file.tensors.contains_key(name);
    let blocks = |stage: usize| {
        let present = |block: &usize| has(&format!("layer{stage}.{block}.conv1.weight"));
        (0..MAX).take_while(present).count()
    };
    let config = ResNetConfig {
        block: if has("layer1.0.conv3.weight") { Block::Bottleneck } else { Block::Basic },
        layers: [1, 2, 3, 4].map(blocks),
        width: file.tensors.get("conv1.weight").and_then(|tensor| tensor.dim(0).ok()).unwrap_or(0),
        stride_in_1x1: false,
        norm: if has("bn1.weight") { Norm::Train } else { Norm::Folded },
    };
    if config.width > MAX || config.layers.iter().sum::<usize>() > MAX {
        let reason = format!("a ResNet of {:?} blocks and width {} is not read", config.layers, config.width);
        return Err(file.refusal(reason));
    }
    let store = ParamStore::new(Key::new(0));
    ResNet::new(&config, store.var_builder(DType::F32, &Device::Cpu))?;
    let report = store.load(&file.tensors, LoadPolicy::LENIENT)?;
    file.check_exact(&report, Network::Other("a ResNet with torchvision's names"))
}
