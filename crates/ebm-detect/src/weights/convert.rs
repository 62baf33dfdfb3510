//! Weights made elsewhere, as files of ours.

use std::path::Path;

use candle_core::{Device, Tensor};
use ebm_nn::import;
use ebm_train::{Class, ModelMetadata};

use super::{
    family::Family,
    file::WeightFile,
    metadata::{DETECTION, FASTEST_DET, detector_metadata, model_metadata},
};
use crate::{
    Error, Result,
    config::{DetectorConfig, ExperimentConfig, Settings},
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
    /// The file's own names of what was left out: anchors and counters.
    pub unused: Vec<String>,
}

/// The key of a converted file's metadata that says whose names it had, beside what
/// [`ModelMetadata`](ebm_train::ModelMetadata) says.
const FAMILY: &str = "family";

/// What a conversion is told beside the two files.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions<'a> {
    /// The weights' configuration. Without it the file or its family decides.
    pub config: Option<&'a ExperimentConfig>,
    /// The classes that the detector finds, in place of those that its file names.
    pub classes: Option<Vec<Class>>,
    /// Whether to write half precision.
    pub half: bool,
}

/// Checks the weights at `input` (see [`import::load`]) against the detector that they are of, and writes them
/// to the safetensors file `output` under our names, with their family and all that a trained one's file says.
/// `output` appears whole or not at all; what is there is replaced.
///
/// # Errors
/// [`Error::Weights`] when the names are of no [`Family`] of detectors or are not exactly the network's, when
/// the convention is another than the configuration's, or when `output` is `input`; else when a file cannot be
/// read or written.
pub fn convert(input: &Path, output: &Path, options: &ConvertOptions<'_>) -> Result<Conversion> {
    let refuse = |reason: &str| Err(Error::weights(input, reason));
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same(input, output) {
        return refuse("this is the input too, and would be lost; give another name for the output");
    }
    let file = WeightFile::open(input, &Device::Cpu)?;
    let known = file.metadata.as_ref().map(|found| &found.classes[..]).unwrap_or_default();
    let classes = options.classes.as_deref().unwrap_or(known);
    let (metadata, configuration) = match file.family {
        Some(Family::FastestDet) => {
            file.fastest_det()?;
            (model_metadata(DETECTION, FASTEST_DET, None, &file.fastest_det_config()?, classes)?, None)
        }
        _ => check_detector(&file, options.config, classes)?,
    };
    let mut metadata = metadata.to_metadata()?;
    let Some(family) = file.family else { return refuse("its names are nobody's") };
    metadata.insert(FAMILY.to_owned(), family.to_string());
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
fn check_detector(
    file: &WeightFile,
    config: Option<&ExperimentConfig>,
    classes: &[Class],
) -> Result<(ModelMetadata, Option<String>)> {
    let config = config.map_or_else(|| file.configuration(), |given| Ok(given.clone()))?;
    file.detector(&config.detector)?;
    let seed = file.metadata.as_ref().and_then(|found| found.seed);
    let metadata = detector_metadata(&config, seed, classes)?;
    Ok((metadata, embedded_name(&config.detector).map(str::to_owned)))
}

/// The embedded configuration of this network, if there is one.
fn embedded_name(config: &DetectorConfig) -> Option<&'static str> {
    let same = |name: &&str| ExperimentConfig::embedded(name).is_ok_and(|known| known.detector == *config);
    ExperimentConfig::EMBEDDED.iter().map(|(name, _)| *name).find(same)
}
