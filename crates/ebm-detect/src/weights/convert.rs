//! Conversion of weights from other projects to files of this one.

use std::path::Path;

use candle_core::{Device, Tensor};
use ebm_nn::import;
use ebm_train::{Class, ModelMetadata};

use super::family::Family;
use super::file::WeightFile;
use super::metadata::{DETECTION, FASTEST_DET, detector_metadata, model_metadata};
use crate::config::{DetectorConfig, ExperimentConfig, Settings};
use crate::{Error, Result};

/// Result of [`convert`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Family that the names in the file belong to.
    pub family: Family,
    /// Name of the weights' embedded configuration; `None` if they have another configuration.
    pub configuration: Option<String>,
    /// Number of tensors written.
    pub tensors: usize,
    /// Number of scalars in these tensors.
    pub parameters: usize,
    /// Names in the file of the tensors that were left out: anchors and counters.
    pub unused: Vec<String>,
}

/// Key of a converted file's metadata for its family, in addition to [`ModelMetadata`](ebm_train::ModelMetadata).
const FAMILY: &str = "family";

/// Options of a conversion.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions<'a> {
    /// Configuration of the weights; without it, the configuration in the file or of its family is used.
    pub config: Option<&'a ExperimentConfig>,
    /// Classes of the detector, in place of those in its file.
    pub classes: Option<Vec<Class>>,
    /// Whether to write half precision.
    pub half: bool,
}

/// Checks the weights at `input` (see [`import::load`]) against their detector, and writes them to the safetensors file
/// `output` under this project's names, with their family and the metadata of a trained detector. `output` is written
/// atomically, and an existing file is replaced.
///
/// # Errors
/// [`Error::Weights`] when the names belong to no [`Family`] of detectors or differ from the network's, when the
/// convention differs from the configuration's, or when `output` is `input`; when a file cannot be read or written.
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
    let Some(family) = file.family else { return refuse("its names belong to no known detector") };
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

/// Checks the detector in `file`, and returns its metadata and the name of its configuration.
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

/// Returns the name of the embedded configuration of this network, if there is one.
fn embedded_name(config: &DetectorConfig) -> Option<&'static str> {
    let same = |name: &&str| ExperimentConfig::embedded(name).is_ok_and(|known| known.detector == *config);
    ExperimentConfig::EMBEDDED.iter().map(|(name, _)| *name).find(same)
}
