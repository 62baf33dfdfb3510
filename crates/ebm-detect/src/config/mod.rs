//! Configuration: TOML, embedded in the binary, every key checked.

mod detector;
mod training;

use std::path::Path;

use ebm_data::files::read_settings;
use ebm_eval::Expected;
use serde::{Deserialize, Serialize};

pub use detector::{
    BackboneConfig, ChannelOrder, Convention, DetectorConfig, InputConfig, MapType, NormKind, ResampleKind,
    RoiConfig, RpnConfig,
};
pub use training::{ConfidenceConfig, OptimizerKind, ProposalConfig, TrainingConfig};

pub use crate::energy_head::Coordinates;

use crate::{
    error::{Error, Result},
    method::Method,
};

/// A detector, its training, and the methods of Table 2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentConfig {
    /// What it should come to; no part of the settings, and not written with them.
    #[serde(default, skip_serializing)]
    pub expected: Option<Expected>,
    /// The network.
    pub detector: DetectorConfig,
    /// Training of the detector itself.
    pub base: TrainingConfig,
    /// The Gaussian, the mixtures, the cVAE and the Laplace.
    pub parametric: TrainingConfig,
    /// IoU-Net.
    pub iou_net: ConfidenceConfig,
    /// IoU-Net*.
    pub iou_net_star: ConfidenceConfig,
    /// Ours.
    pub ebm: ConfidenceConfig,
}

const EMBEDDED: [(&str, &str); 3] = [
    ("mini", include_str!("../../configs/mini.toml")),
    ("paper", include_str!("../../configs/paper.toml")),
    ("torchvision", include_str!("../../configs/torchvision.toml")),
];

impl ExperimentConfig {
    /// An embedded configuration: `mini`, `paper` or `torchvision`.
    pub fn embedded(name: &str) -> Result<Self> {
        match EMBEDDED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(name, text),
            None => Err(Error::Config {
                name: name.into(),
                reason: "not an embedded configuration; there are mini, paper and torchvision".into(),
            }),
        }
    }

    /// Parses TOML; an unknown or missing key is an error that names it.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let fail = |reason: String| Error::Config { name: name.into(), reason };
        let mut config: Self = toml::from_str(text).map_err(|error| fail(error.to_string()))?;
        if config.trainings_mut().iter().any(|training| training.steps == 0 || training.batch_size == 0) {
            return Err(fail("every training needs at least 1 step and a batch_size of at least 1".into()));
        }
        config.detector.check().map_err(fail)?;
        Ok(config)
    }

    /// Reads a TOML file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_settings(path)
            .map_err(|error| Error::Config { name: name.clone(), reason: error.to_string() })?;
        Self::parse(&name, &text)
    }

    /// The same as TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::Config { name: "resolved".into(), reason: error.to_string() })
    }

    /// Settings of a method's confidence branch, where it has one.
    pub fn confidence(&self, method: Method) -> Option<&ConfidenceConfig> {
        match method {
            Method::IouNet => Some(&self.iou_net),
            Method::IouNetStar => Some(&self.iou_net_star),
            Method::Ebm => Some(&self.ebm),
            _ => None,
        }
    }

    /// Settings of the training of what a method adds to the detector; Direct adds nothing.
    pub fn training(&self, method: Method) -> Option<&TrainingConfig> {
        match method {
            Method::Direct => None,
            method => Some(self.confidence(method).map_or(&self.parametric, |branch| &branch.training)),
        }
    }

    /// Every training in it.
    pub fn trainings_mut(&mut self) -> [&mut TrainingConfig; 5] {
        [
            &mut self.base,
            &mut self.parametric,
            &mut self.iou_net.training,
            &mut self.iou_net_star.training,
            &mut self.ebm.training,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_configuration_survives_a_round_trip() {
        for (name, _) in EMBEDDED {
            let config = ExperimentConfig { expected: None, ..ExperimentConfig::embedded(name).unwrap() };
            assert_eq!(ExperimentConfig::parse(name, &config.to_toml().unwrap()).unwrap(), config);
        }
    }

    #[test]
    fn an_unknown_key_is_named() {
        let text = EMBEDDED[0].1.replace("[detector.rpn]", "[detector.rpn]\nanchor_size = 3");
        let error = ExperimentConfig::parse("mini", &text).unwrap_err().to_string();
        assert!(error.contains("anchor_size"), "{error}");
    }

    #[test]
    fn contradictions_are_refused() {
        let text = EMBEDDED[0].1.replace("num_classes = 7", "num_classes = 1");
        assert!(ExperimentConfig::parse("mini", &text).is_err());
        let text = EMBEDDED[0].1.replacen("steps = ", "steps = 0 #", 1);
        let error = ExperimentConfig::parse("mini", &text).unwrap_err().to_string();
        assert!(error.contains("at least 1 step"), "{error}");
    }
}
