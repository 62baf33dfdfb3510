//! A weight file as it was found, under our names.

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use ebm_nn::import::{self, LoadReport};
use ebm_train::{Metadata, ModelMetadata};

use super::{
    conventions::Conventions,
    detectron,
    family::{Family, Role},
    metadata::DETECTION,
};
use crate::{
    anchors::AnchorGenerator,
    config::{DetectorConfig, ExperimentConfig, Settings},
    error::{Error, Result},
};

/// torchvision's classes with the background: COCO's numbers, those without a class included.
const TORCHVISION_CLASSES: usize = 91;

/// Anchors of a file may differ from ours by this, in pixels: rounding, not another rule.
const ANCHOR_TOLERANCE: f32 = 0.01;

/// The tensors of a weight file.
pub(super) struct WeightFile {
    /// Whose names it has; `None` for nobody's that is known.
    pub(super) family: Option<Family>,
    /// What it says of itself, if it was written here.
    pub(super) metadata: Option<ModelMetadata>,
    /// By our names, in single precision, or by its own where there is no translation.
    pub(super) tensors: BTreeMap<String, Tensor>,
    /// Anchors by level from P2.
    pub(super) anchors: BTreeMap<usize, Tensor>,
    /// Its own names of what was left out.
    pub(super) unused: Vec<String>,
    /// All that stands in a safetensors file's metadata.
    pub(super) all_metadata: Metadata,
}

impl WeightFile {
    /// Reads the file at `path` (see [`import::load`]) and translates its names.
    ///
    /// # Errors
    /// When the file cannot be read, or two of its names are ours for the same parameter.
    pub(super) fn open(path: &Path, device: &Device) -> Result<Self> {
        let refuse = |reason: String| Error::Weights { path: path.to_owned(), reason };
        let (found, all_metadata) = import::load_with_metadata(path, device)?;
        let mut file = Self {
            family: Family::of(found.keys().map(String::as_str)),
            metadata: ModelMetadata::parse(path, &all_metadata)?,
            tensors: BTreeMap::new(),
            anchors: BTreeMap::new(),
            unused: Vec::new(),
            all_metadata,
        };
        for (name, tensor) in found {
            // No layer here counts batches, whoever wrote the file.
            let role = match file.family {
                _ if name.ends_with("num_batches_tracked") => Role::Unused,
                Some(family) => family.role(&name),
                None => Role::Parameter(name.clone()),
            };
            let ours = match role {
                Role::Parameter(ours) => ours,
                // It stays, to be named among what the network does not have.
                Role::Unknown => name.clone(),
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
                return Err(refuse(format!("two tensors are {ours}, one of them {name}")));
            }
        }
        if file.family == Some(Family::Detectron) {
            detectron::add_statistics(&mut file.tensors)?;
        }
        Ok(file)
    }

    /// The embedded configuration of the published detectors of the file's family. torchvision's names with another number of classes
    /// may be anybody's.
    pub(super) fn published(&self) -> Option<&'static str> {
        let classes = self.tensors.get("roi_heads.box_predictor.cls_score.bias").map(Tensor::elem_count);
        let family = self
            .family
            .filter(|&family| family != Family::Torchvision || classes == Some(TORCHVISION_CLASSES));
        family.and_then(Family::configuration)
    }

    /// What the weights take for granted, where the file or its family says it. torchvision's names alone do not:
    /// the detectors that are trained here have them too.
    fn conventions(&self, path: &Path) -> Result<Option<Conventions>> {
        if let Some(metadata) = &self.metadata {
            let parsed = toml::from_str(&metadata.input).map_err(|error| Error::Weights {
                path: path.to_owned(),
                reason: format!("its metadata input: {error}"),
            });
            return parsed.map(Some);
        }
        let family = self.family.filter(|&family| family != Family::Torchvision);
        let published = family.and_then(Family::configuration).map(ExperimentConfig::embedded).transpose()?;
        Ok(published.map(|published| Conventions::of(&published.detector)))
    }

    /// Refuses names of no family, and a configuration of other conventions or other anchors than the weights'.
    pub(super) fn check(&self, path: &Path, config: &DetectorConfig) -> Result<()> {
        let refuse = |reason: String| Err(Error::Weights { path: path.to_owned(), reason });
        let Some(family) = self.family else {
            let names: Vec<String> = self.tensors.keys().cloned().collect();
            return refuse(format!("its names are not {}; it has {}", Family::expected(), first_of(&names)));
        };
        if let Some(metadata) = &self.metadata {
            metadata.check_task(path, &[DETECTION])?;
        }
        if let Some(conventions) = self.conventions(path)? {
            let differences = conventions.differences(&Conventions::of(config));
            if !differences.is_empty() {
                return refuse(format!(
                    "the weights are of another convention than the configuration: {}; {}",
                    differences.join(", "),
                    self.remedy(config)
                ));
            }
        }
        let anchors = AnchorGenerator::of(config);
        for (&level, found) in &self.anchors {
            let rows = found.to_vec2::<f32>().unwrap_or_default();
            let ours = anchors.cells().get(level).map_or(&[][..], Vec::as_slice);
            let close = |(row, cell): (&Vec<f32>, &[f32; 4])| {
                row.len() == 4 && row.iter().zip(cell).all(|(a, b)| (a - b).abs() <= ANCHOR_TOLERANCE)
            };
            if rows.len() != ours.len() || !rows.iter().zip(ours).all(close) {
                return refuse(format!(
                    "{family}'s anchors of level P{} are {rows:?}, the configuration's {ours:?}; {}",
                    level + 2,
                    self.remedy(config)
                ));
            }
        }
        Ok(())
    }

    /// Refuses weights that are not exactly those of the network, a detector's of `config` or a ResNet, with everything that differs.
    pub(super) fn check_exact(
        &self,
        path: &Path,
        report: &LoadReport,
        config: Option<&DetectorConfig>,
    ) -> Result<()> {
        if report.is_exact() {
            return Ok(());
        }
        let mismatched: Vec<String> = (report.mismatched.iter())
            .map(|m| format!("{} (expected {:?}, found {:?})", m.name, m.expected, m.found))
            .collect();
        let lists = [
            ("missing", &report.missing),
            ("left over", &report.unexpected),
            ("of another shape", &mismatched),
        ];
        let lists: Vec<String> = (lists.into_iter())
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{} {what}: {}", names.len(), first_of(names)))
            .collect();
        let (fit, lists) = (report.loaded.len(), lists.join("; "));
        let reason = match config {
            None => format!("not a ResNet with torchvision's names ({fit} of its parameters fit); {lists}"),
            Some(config) => format!(
                "the weights are of another architecture than the configuration's ({fit} of its parameters fit); \
                 {lists}; {}",
                self.remedy(config)
            ),
        };
        Err(Error::Weights { path: path.to_owned(), reason })
    }

    /// What to do where the weights do not fit `config`.
    fn remedy(&self, config: &DetectorConfig) -> String {
        if self.metadata.is_some() {
            return "leave --config out: the file holds its own configuration".to_owned();
        }
        let Some(name) = self.published() else {
            return "give --config with the configuration that they were trained with".to_owned();
        };
        let mut named = ExperimentConfig::embedded(name).map(|named| named.detector);
        if let Ok(named) = &mut named {
            named.backbone.maps = config.backbone.maps;
        }
        if named.is_ok_and(|named| named == *config) {
            let read = match self.family {
                Some(Family::Torchvision) => {
                    "of torchvision's, fasterrcnn_resnet50_fpn is read, its _v2 is not"
                }
                _ => "such a network is not read",
            };
            return format!("no configuration has this architecture: {read}");
        }
        format!("give --config {name}")
    }
}

/// The first few names, and how many more there are.
fn first_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}
