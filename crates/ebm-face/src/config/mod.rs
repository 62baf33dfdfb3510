//! The settings of the experiments on faces.

mod parts;

pub use ebm_experiment::config::Settings;
use ebm_experiment::config::{row, settings};
use serde::{Deserialize, Serialize};

pub use parts::{
    AblationConfig, BackboneTraining, EnergyConfig, FrozenConfig, GeneratedConfig, HeadConfig, InputConfig,
    MethodConfig, ObjectiveConfig, QuotedConfig, RefinementConfig, TrainingConfig,
};

use crate::network::ENERGY;
use crate::{BackboneConfig, EnergyHeadConfig, Result};
use ebm_core::Grid;
use ebm_core::parametric::Parametric;

settings! {
    /// A table of the paper for faces: the data's form, the networks, their training, and the rows.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ExperimentConfig {
        /// What the tables call the task.
        pub title: String,
        /// The names of the D coordinates of y.
        pub coordinates: Vec<String>,
        /// The unit of y.
        pub unit: String,
        /// From an image to the network's input.
        pub input: InputConfig,
        /// The network of g_x.
        pub trunk: BackboneConfig,
        /// What all heads share.
        pub head: HeadConfig,
        /// Training of a baseline.
        pub training: TrainingConfig,
        /// The energy-based model.
        pub energy: EnergyConfig,
        /// Prediction, Algorithm S2.
        pub refinement: RefinementConfig,
        /// Where densities are normalised: the same grid for each coordinate.
        pub density: Grid,
        /// The proposals that the supplement compares.
        pub ablation: AblationConfig,
        /// Objectives that are compared with the energy model's own.
        #[serde(default)]
        pub objectives: Vec<ObjectiveConfig>,
        /// The rows of the table.
        pub methods: Vec<MethodConfig>,
        /// Rows that are quoted beside them.
        #[serde(default)]
        pub quoted: Vec<QuotedConfig>,
        /// Training of heads on fixed features; without it the whole network is trained for each row.
        #[serde(default)]
        pub frozen: Option<FrozenConfig>,
        /// The training images that are drawn for the results where the test images are not there; with 0 the results
        /// are the validation split's.
        #[serde(default)]
        pub report: usize where 0..=1_000_000 => "images",
        /// Sizes of the generated splits, where the data are generated.
        #[serde(default)]
        pub generated: Option<GeneratedConfig>,
    }
}

/// The most points at which a density is computed.
const MAX_POINTS: f64 = 1e7;

impl Settings for ExperimentConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[
        ("age_paper", include_str!("../../configs/age_paper.toml")),
        ("age_convnext_paper", include_str!("../../configs/age_convnext_paper.toml")),
        ("age_finetuned", include_str!("../../configs/age_finetuned.toml")),
        ("age_shared", include_str!("../../configs/age_shared.toml")),
        ("age_mini", include_str!("../../configs/age_mini.toml")),
        ("head_pose_paper", include_str!("../../configs/head_pose_paper.toml")),
        ("head_pose_mini", include_str!("../../configs/head_pose_mini.toml")),
        ("head_pose_pointing", include_str!("../../configs/head_pose_pointing.toml")),
    ];

    fn check(&self) -> std::result::Result<(), String> {
        let dim = self.dim();
        if dim == 0 {
            return Err("coordinates: at least one is needed".into());
        }
        if self.input.flip_signs.len() != dim {
            return Err(format!("input.flip_signs: {} for {dim} coordinates", self.input.flip_signs.len()));
        }
        self.input.transform(true).check().map_err(|error| format!("input: {error}"))?;
        let points = (self.density.num_points() as f64).powf(dim as f64);
        if points > MAX_POINTS {
            return Err(format!(
                "density.num_points: {points:e} points in {dim} dimensions, at most {MAX_POINTS:e}"
            ));
        }
        for method in &self.methods {
            if method.baseline.dim() != dim {
                let found = method.baseline.dim();
                return Err(format!("methods.{}: {found} coordinates instead of {dim}", method.key));
            }
        }
        if let Some(trunk) = self.frozen.as_ref().and_then(|frozen| frozen.trunk.as_ref()) {
            self.method(&trunk.method).map_err(|error| format!("frozen.trunk: {error}"))?;
        }
        Ok(())
    }
}

impl ExperimentConfig {
    /// D, the number of coordinates of y.
    pub fn dim(&self) -> usize {
        self.coordinates.len()
    }

    /// The energy head.
    pub fn energy_head(&self) -> EnergyHeadConfig {
        EnergyHeadConfig { dim: self.dim(), y_layers: self.head.y_layers.clone(), hidden: self.head.hidden }
    }

    /// How the network of the method with this key is trained.
    pub fn training_of(&self, method: &str) -> &TrainingConfig {
        if method == ENERGY { &self.energy.training } else { &self.training }
    }

    /// The row with this key.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) naming those that there are.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        row(&self.methods, |method| &method.key, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_configuration_survives_a_round_trip() {
        for (name, _) in ExperimentConfig::EMBEDDED {
            let config = ExperimentConfig::embedded(name).unwrap();
            assert_eq!(ExperimentConfig::parse(name, &config.to_toml().unwrap()).unwrap(), config, "{name}");
            assert_eq!(config.frozen.is_some(), !name.ends_with("paper"), "{name}");
            assert_eq!(config.generated.is_some(), name.ends_with("mini"), "{name}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| ExperimentConfig::parse("mine", text).unwrap_err().to_string();
        assert!(message("extends = \"age\"").contains("age_paper"));
        assert!(message("extends = \"age_paper\"\n[energy]\nsigma = 3").contains("sigma"));
        assert!(message("extends = \"age_paper\"\n[training]\nepochs = -1.0").contains("training.epochs"));
        assert!(message("extends = \"age_paper\"\ncoordinates = [\"a\", \"b\"]").contains("flip_signs"));
        let refinement = message("extends = \"age_paper\"\n[refinement]\nchange_threshold = -1.0");
        assert!(refinement.contains("refinement.change_threshold = -1.0; it must be"), "{refinement}");
        assert!(message("title = ").contains("mine"));
    }
}
