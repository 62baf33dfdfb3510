//! Whether the weights in a file are those of a network, and what to do where they are not.

use ebm_nn::import::first_of;
use ebm_train::settings;

use super::{
    family::Family,
    file::WeightFile,
    metadata::{DETECTION, conventions},
};
use crate::{
    Result,
    anchors::AnchorGenerator,
    config::{DetectorConfig, ExperimentConfig, Settings},
};

/// Anchors of a file may differ from ours by this, in pixels: rounding, not another rule.
const ANCHOR_TOLERANCE: f32 = 0.01;

impl WeightFile {
    /// What the weights take for granted, as TOML, where the file or its family says it. torchvision's names alone do
    /// not: the detectors that are trained here have them too.
    fn conventions(&self) -> Result<Option<String>> {
        if let Some(metadata) = &self.metadata {
            return Ok(Some(metadata.input.clone()));
        }
        let family = self.family.filter(|&family| family != Family::Torchvision);
        let published = family.and_then(Family::configuration).map(ExperimentConfig::embedded).transpose()?;
        published.map(|published| conventions(&published.detector)).transpose()
    }

    /// Whose names it has; refuses FastestDet where a Faster-RCNN is needed, and names of no family.
    pub(super) fn check_two_stages(&self) -> Result<Family> {
        let reason = match self.family {
            Some(Family::FastestDet) => {
                "FastestDet, a detector of one stage: here one of two stages is needed, Faster-RCNN"
                    .to_owned()
            }
            Some(family) => return Ok(family),
            None => {
                let names: Vec<String> = self.tensors.keys().cloned().collect();
                format!("its names are not {}; it has {}", Family::expected(), first_of(&names))
            }
        };
        Err(self.refusal(reason))
    }

    /// Refuses names of no family, and a configuration of other conventions or other anchors than the
    /// weights'.
    pub(super) fn check(&self, config: &DetectorConfig) -> Result<()> {
        if let Some(metadata) = &self.metadata {
            metadata.check_task(&self.path, &[DETECTION])?;
        }
        let family = self.check_two_stages()?;
        let refuse = |reason: String| Err(self.refusal(reason));
        if let Some(theirs) = self.conventions()? {
            let flat = |text: &str| settings::flat(text).map_err(|error| self.refusal(error.to_string()));
            let ours = conventions(config)?;
            let differences = settings::differences(&flat(&theirs)?, &flat(&ours)?, |_| true);
            if !differences.is_empty() {
                let (differences, remedy) = (differences.join(", "), self.remedy(config));
                return refuse(format!(
                    "the weights are of another convention than the configuration: {differences}; {remedy}"
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

    /// What to do where the weights do not fit `config`.
    pub(super) fn remedy(&self, config: &DetectorConfig) -> String {
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
