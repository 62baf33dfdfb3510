//! Weight file with translated names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use ebm_nn::import::WeightBytes;
use ebm_nn::params::ParamStore;
use ebm_train::{ModelMetadata, model_file, moved_with};

use super::family::{Family, Role, unwrapped};
use super::metadata::{DETECTION, stated_configuration};
use crate::config::{DetectorConfig, ExperimentConfig, FastestDetConfig, Settings};
use crate::faster_rcnn::FasterRcnn;
use crate::fastest_det::FastestDet;
use crate::{Error, Result, body};

/// Number of torchvision's classes with the background: all ids of COCO, including the unused ones.
const TORCHVISION_CLASSES: usize = 91;

/// Weight file that was read: its tensors and its metadata.
pub struct WeightFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Device of the tensors.
    pub(crate) device: Device,
    /// Family of the names; `None` if it is unknown.
    pub(super) family: Option<Family>,
    /// Metadata; `None` for a file that was not written here.
    pub metadata: Option<ModelMetadata>,
    /// Tensors in single precision by their translated names; names without a translation stay as they are.
    pub tensors: BTreeMap<String, Tensor>,
    /// Anchors by level, counted from P2.
    pub(super) anchors: BTreeMap<usize, Tensor>,
    /// Names in the file of the tensors that were left out.
    pub(super) unused: Vec<String>,
}

impl WeightFile {
    /// Reads the file at `path` (see [`ebm_nn::import::load`]) and translates its names.
    ///
    /// # Errors
    /// When the file cannot be read, or two of its names have the same translation.
    pub fn open(path: &Path, device: &Device) -> Result<Self> {
        Self::of(&WeightBytes::read(path)?, device)
    }

    /// Reads the `bytes` of a file as [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn of(bytes: &WeightBytes<'_>, device: &Device) -> Result<Self> {
        let (path, (found, metadata)) = (&bytes.path, bytes.load(device)?);
        let mut file = Self {
            path: path.to_owned(),
            device: device.clone(),
            family: Family::of(found.keys().map(String::as_str)),
            metadata: ModelMetadata::parse(path, &metadata)?,
            tensors: BTreeMap::new(),
            anchors: BTreeMap::new(),
            unused: Vec::new(),
        };
        for (name, tensor) in found {
            // No layer here counts batches.
            let role = match file.family {
                _ if name.ends_with("num_batches_tracked") => Role::Unused,
                Some(family) => family.role(&name),
                None => Role::Parameter(unwrapped(&name).to_owned()),
            };
            let ours = match role {
                Role::Parameter(ours) => ours,
                Role::Anchors(level) => {
                    file.anchors.insert(level, tensor.to_dtype(DType::F32)?);
                    file.unused.push(name);
                    continue;
                }
                Role::Unused => {
                    file.unused.push(name);
                    continue;
                }
            };
            let tensor = match tensor.dtype() {
                DType::F16 | DType::BF16 | DType::F64 => tensor.to_dtype(DType::F32)?,
                _ => tensor,
            };
            if file.tensors.insert(ours.clone(), tensor).is_some() {
                return Err(file.refusal(format!("two tensors are {ours}, one of them {name}")));
            }
        }
        file.add_body()?;
        Ok(file)
    }

    /// Adds the body of the network that a detector's file names as its base.
    fn add_body(&mut self) -> Result<()> {
        let detector = self.metadata.as_ref().filter(|said| said.task == DETECTION);
        let Some(base) = detector.and_then(|said| said.base.clone()) else { return Ok(()) };
        let Some(file) = base.file else { return Ok(()) };
        let path = moved_with(&self.path, &file);
        let body = body::tensors_of(&Self::open(&path, &self.device)?.tensors);
        if model_file::digest(&body)? != base.digest {
            let reason = format!(
                "{} does not hold the body that it was trained on; put that file there",
                path.display()
            );
            return Err(self.refusal(reason));
        }
        self.tensors.extend(body);
        Ok(())
    }

    /// Returns the metadata of a file for one of `tasks`.
    ///
    /// # Errors
    /// [`Error::Weights`] if the file has no metadata, [`Error::Train`] if it is for another task.
    pub fn require(&self, tasks: &[&str]) -> Result<&ModelMetadata> {
        let unsaid =
            || self.refusal("it does not say what it is; give a file that was trained here".to_owned());
        let said = self.metadata.as_ref().ok_or_else(unsaid)?;
        said.check_task(&self.path, tasks)?;
        Ok(said)
    }

    /// Computes the [digest](model_file::digest) of the tensors.
    ///
    /// # Errors
    /// When a tensor cannot be read.
    pub fn digest(&self) -> Result<String> {
        Ok(model_file::digest(&self.tensors)?)
    }

    /// Returns the configuration of the detector: the one in the file, or else the one that its [`Family`] published.
    ///
    /// # Errors
    /// [`Error::Weights`] if neither is known.
    pub fn configuration(&self) -> Result<ExperimentConfig> {
        if let Some(metadata) = self.metadata.as_ref().filter(|_| !self.is_fastest_det()) {
            metadata.check_task(&self.path, &[DETECTION])?;
            return stated_configuration(metadata, &self.path);
        }
        self.check_two_stages()?;
        let unknown = || {
            let reason = "it does not say with which configuration it was trained; give it with --config";
            self.refusal(reason.to_owned())
        };
        ExperimentConfig::embedded(self.published().ok_or_else(unknown)?)
    }

    /// Returns `true` if the weights are [`FastestDet`]'s.
    pub fn is_fastest_det(&self) -> bool {
        self.family == Some(Family::FastestDet)
    }

    /// Builds FastestDet with these parameters, all frozen.
    ///
    /// # Errors
    /// [`Error::Weights`] when names or shapes differ from the network's.
    pub fn fastest_det(&self) -> Result<FastestDet> {
        const WHAT: &str = "FastestDet as published";
        let numbers = self.tensors.get("detect_head.cls_layers.conv5x5.3.weight");
        let Some(classes) = numbers.and_then(|weight| weight.dim(0).ok()).filter(|classes| *classes > 0)
        else {
            return Err(self.refusal(format!("not {WHAT}: it has no layer of its classes")));
        };
        let config = self.fastest_det_config()?;
        let build = |store: &ParamStore| {
            FastestDet::new(config, classes, &store.var_builder(DType::F32, &self.device))
        };
        let built = ParamStore::build(&self.tensors, build);
        built.map(|(network, _)| network).map_err(|reason| self.refusal(format!("not {WHAT}: {reason}")))
    }

    /// Returns the settings of FastestDet in the file, or else the published ones.
    pub(super) fn fastest_det_config(&self) -> Result<FastestDetConfig> {
        let Some(metadata) = &self.metadata else { return FastestDetConfig::embedded("fastestdet") };
        metadata.check_task(&self.path, &[DETECTION])?;
        FastestDetConfig::parse("its configuration", &metadata.config)
            .map_err(|error| self.refusal(error.to_string()))
    }

    /// Builds the detector with these parameters, all frozen.
    ///
    /// # Errors
    /// [`Error::Weights`] when names or shapes differ from the architecture's (missing parameters are not drawn), or
    /// when the convention differs from `config`.
    pub fn detector(&self, config: &DetectorConfig) -> Result<FasterRcnn> {
        self.check(config)?;
        self.build(config, |store| FasterRcnn::new(config, store.var_builder(DType::F32, &self.device)))
    }

    /// Builds a network of `config` from all these parameters, frozen.
    pub(crate) fn build<T>(
        &self,
        config: &DetectorConfig,
        network: impl FnOnce(&ParamStore) -> Result<T>,
    ) -> Result<T> {
        let built = ParamStore::build(&self.tensors, network);
        built.map(|(network, _)| network).map_err(|reason| {
            let remedy = self.remedy(config);
            self.refusal(format!(
                "the weights are of another architecture than the configuration's: {reason}; {remedy}"
            ))
        })
    }

    pub(super) fn refusal(&self, reason: String) -> Error {
        Error::weights(&self.path, reason)
    }

    /// Returns the name of the embedded configuration that the file's family published. A file with torchvision's names
    /// and another number of classes has none, because detectors trained here have these names too.
    pub(super) fn published(&self) -> Option<&'static str> {
        let classes = self.tensors.get("roi_heads.box_predictor.cls_score.bias").map(Tensor::elem_count);
        let family = self
            .family
            .filter(|&family| family != Family::Torchvision || classes == Some(TORCHVISION_CLASSES));
        family.and_then(Family::configuration)
    }
}
