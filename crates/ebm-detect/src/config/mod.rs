//! The settings of detection's experiments.

mod detector;
mod training;

use serde::{Deserialize, Serialize};

pub use detector::{
    BackboneConfig, ChannelOrder, Convention, DetectorConfig, InputConfig, MapType, NormKind, ResampleKind,
    RoiConfig, RpnConfig,
};
pub use training::{ConfidenceConfig, OptimizerKind, ProposalConfig, TrainingConfig};

pub use crate::energy_head::Coordinates;

pub use ebm_experiment::config::Settings;

use crate::method::Method;

/// A detector, its training, and the methods of Table 2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentConfig {
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

impl Settings for ExperimentConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[
        ("mini", include_str!("../../configs/mini.toml")),
        ("paper", include_str!("../../configs/paper.toml")),
        ("torchvision", include_str!("../../configs/torchvision.toml")),
    ];

    fn check(&self) -> std::result::Result<(), String> {
        if self.trainings().iter().any(|training| training.steps == 0 || training.batch_size == 0) {
            return Err("every training needs at least 1 step and a batch_size of at least 1".into());
        }
        self.detector.check()
    }
}

impl ExperimentConfig {
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

    fn trainings(&self) -> [&TrainingConfig; 5] {
        let Self { base, parametric, iou_net, iou_net_star, ebm, .. } = self;
        [base, parametric, &iou_net.training, &iou_net_star.training, &ebm.training]
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
        for (name, _) in ExperimentConfig::EMBEDDED {
            let config = ExperimentConfig::embedded(name).unwrap();
            assert_eq!(ExperimentConfig::parse(name, &config.to_toml().unwrap()).unwrap(), config);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |text: &str| {
            ExperimentConfig::parse("mine", &format!("extends = 'mini'\n{text}")).unwrap_err().to_string()
        };
        assert!(refused("detector.num_classes = 1").contains("num_classes"));
        assert!(refused("ebm.training.steps = 0").contains("at least 1 step"));
        assert!(refused("detector.rpn.anchor_size = 3").contains("did you mean `anchor_sizes`"));
    }
}
