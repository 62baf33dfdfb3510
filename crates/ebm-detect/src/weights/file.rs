//! A weight file as it was found, under our names.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_nn::{
    import::{LoadPolicy, WeightBytes},
    params::ParamStore,
};
use ebm_train::{ModelMetadata, model_file, moved_with};

use super::{
    family::{Family, Role, unwrapped},
    metadata::{DETECTION, stated_configuration},
};
use crate::{
    Error, Result, body,
    config::{DetectorConfig, ExperimentConfig, FastestDetConfig, Settings},
    faster_rcnn::FasterRcnn,
    fastest_det::FastestDet,
};

/// torchvision's classes with the background: COCO's numbers, those without a class included.
const TORCHVISION_CLASSES: usize = 91;

/// A weight file, read once: its tensors, and what it says of itself.
pub struct WeightFile {
    /// Where it is.
    pub path: PathBuf,
    /// Where its tensors are.
    pub(crate) device: Device,
    /// Whose names it has; `None` for nobody's that is known.
    pub(super) family: Option<Family>,
    /// What it says of itself; none of a file that was made elsewhere.
    pub metadata: Option<ModelMetadata>,
    /// By our names, in single precision, or by its own where there is no translation.
    pub tensors: BTreeMap<String, Tensor>,
    /// Anchors by level from P2.
    pub(super) anchors: BTreeMap<usize, Tensor>,
    /// Its own names of what was left out.
    pub(super) unused: Vec<String>,
}

impl WeightFile {
    /// Reads the file at `path` (see [`ebm_nn::import::load`]) and translates its names.
    ///
    /// # Errors
    /// When the file cannot be read, or two of its names are ours for the same parameter.
    pub fn open(path: &Path, device: &Device) -> Result<Self> {
        Self::of(&WeightBytes::read(path)?, device)
    }

    /// As [`open`](Self::open), of a file's bytes.
    ///
    /// # Errors
    /// As there.
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
            // No layer here counts batches, whoever wrote the file.
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

    /// What it says of itself, which must be that it is for one of `tasks`.
    ///
    /// # Errors
    /// [`Error::Weights`] where it says nothing, [`Error::Train`] where it is for another.
    pub fn require(&self, tasks: &[&str]) -> Result<&ModelMetadata> {
        let unsaid =
            || self.refusal("it does not say what it is; give a file that was trained here".to_owned());
        let said = self.metadata.as_ref().ok_or_else(unsaid)?;
        said.check_task(&self.path, tasks)?;
        Ok(said)
    }

    /// The [digest](model_file::digest) of its tensors.
    ///
    /// # Errors
    /// When a tensor cannot be read.
    pub fn digest(&self) -> Result<String> {
        Ok(model_file::digest(&self.tensors)?)
    }

    /// The configuration of the detector in it: the one that the file holds, or else that of its [`Family`]'s
    /// published detectors.
    ///
    /// # Errors
    /// [`Error::Weights`] for a file that tells neither, as one that was trained here before files held their
    /// configuration.
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

    /// Whether it is [`FastestDet`]'s.
    pub fn is_fastest_det(&self) -> bool {
        self.family == Some(Family::FastestDet)
    }

    /// FastestDet with its parameters, all frozen.
    ///
    /// # Errors
    /// [`Error::Weights`] when names or shapes are others.
    pub fn fastest_det(&self) -> Result<FastestDet> {
        const WHAT: &str = "FastestDet as published";
        let numbers = self.tensors.get("detect_head.cls_layers.conv5x5.3.weight");
        let Some(classes) = numbers.and_then(|weight| weight.dim(0).ok()).filter(|classes| *classes > 0)
        else {
            return Err(self.refusal(format!("not {WHAT}: it has no layer of its classes")));
        };
        let store = ParamStore::new(Key::new(0));
        store.freeze(|_| true);
        let vb = store.var_builder(DType::F32, &self.device);
        let network = FastestDet::new(self.fastest_det_config()?, classes, &vb)?;
        let report = store.load(&self.tensors, LoadPolicy::Lenient)?;
        if !report.is_exact() {
            return Err(self.refusal(format!("not {WHAT}: of its parameters {report}")));
        }
        Ok(network)
    }

    /// FastestDet's settings: those that the file holds, or else the published ones.
    pub(super) fn fastest_det_config(&self) -> Result<FastestDetConfig> {
        let Some(metadata) = &self.metadata else { return FastestDetConfig::embedded("fastestdet") };
        metadata.check_task(&self.path, &[DETECTION])?;
        FastestDetConfig::parse("its configuration", &metadata.config)
            .map_err(|error| self.refusal(error.to_string()))
    }

    /// The detector with its parameters, all frozen.
    ///
    /// # Errors
    /// [`Error::Weights`] when names or shapes are not those of the architecture (nothing is drawn in their
    /// place), or when it is of another convention than `config`.
    pub fn detector(&self, config: &DetectorConfig) -> Result<FasterRcnn> {
        self.check(config)?;
        let store = ParamStore::new(Key::new(0));
        store.freeze(|_| true);
        let detector = FasterRcnn::new(config, store.var_builder(DType::F32, &self.device))?;
        self.fill(&store, config)?;
        Ok(detector)
    }

    /// Fills `store`, a network of `config`; every name and shape must agree.
    pub(crate) fn fill(&self, store: &ParamStore, config: &DetectorConfig) -> Result<()> {
        let report = store.load(&self.tensors, LoadPolicy::Lenient)?;
        if report.is_exact() {
            return Ok(());
        }
        Err(self.refusal(format!(
            "the weights are of another architecture than the configuration's: of its parameters {report}; {}",
            self.remedy(config)
        )))
    }

    pub(super) fn refusal(&self, reason: String) -> Error {
        Error::weights(&self.path, reason)
    }

    /// The embedded configuration of the published detectors of the file's family. torchvision's names with
    /// another number of classes may be anybody's.
    pub(super) fn published(&self) -> Option<&'static str> {
        let classes = self.tensors.get("roi_heads.box_predictor.cls_score.bias").map(Tensor::elem_count);
        let family = self
            .family
            .filter(|&family| family != Family::Torchvision || classes == Some(TORCHVISION_CLASSES));
        family.and_then(Family::configuration)
    }
}
