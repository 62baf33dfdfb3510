//! Checks that the weights in a file fit a network, and remedies if they do not.

use ebm_nn::import::first_of;
use ebm_train::settings;

use super::family::Family;
use super::file::WeightFile;
use super::metadata::{DETECTION, conventions};
use crate::Result;
use crate::anchors::AnchorGenerator;
use crate::config::{DetectorConfig, ExperimentConfig, Settings};

/// Tolerated difference of a file's anchors and the configuration's, in pixels, which allows for rounding.
const ANCHOR_TOLERANCE: f32 = 0.01;

impl WeightFile {
    /// Returns the conventions of the weights as TOML, if the file or its family tells them. torchvision's names do
    /// not, because detectors trained here have them too.
    fn conventions(&self) -> Result<Option<String>> {
        if let Some(metadata) = &self.metadata {
            return Ok(Some(metadata.input.clone()));
        }
        let family = self.family.filter(|&family| family != Family::Torchvision);
        let published = family.and_then(Family::configuration).map(ExperimentConfig::embedded).transpose()?;
        published.map(|published| conventions(&published.detector)).transpose()
    }

    /// Returns the family of the names; refuses FastestDet, which is no Faster-RCNN, and names of no family.
    pub(super) fn check_two_stages(&self) -> Result<Family> {
        let reason = match self.family {
            Some(Family::FastestDet) => {
                "FastestDet, a detector of one stage: give one of two stages, Faster-RCNN".to_owned()
            }
            Some(family) => return Ok(family),
            None => {
                let names: Vec<String> = self.tensors.keys().cloned().collect();
                format!("its names are not {}; it has {}", Family::expected(), first_of(&names))
            }
        };
        Err(self.refusal(reason))
    }

    /// Checks that the names belong to a family, and that `config` has the conventions and anchors of the weights.
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

    /// Returns the advice of a message on weights that do not fit `config`.
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
