//! Settings of the experiments on faces.

mod parts;

pub use ebm_experiment::config::Settings;
use ebm_experiment::config::{row, settings_table};

pub use parts::{
    AblationConfig, BackboneTraining, EnergyConfig, FrozenConfig, GeneratedConfig, HeadConfig, InputConfig,
    MethodConfig, ObjectiveConfig, QuotedConfig, RefinementConfig, TrainingConfig,
};

use crate::network::ENERGY;
use crate::{BackboneConfig, EnergyHeadConfig, Result};
use ebm_core::Grid;
use ebm_core::parametric::Parametric;

settings_table! {
    /// A table of the paper for faces: data, networks, training, and rows.
    pub struct ExperimentConfig {
        /// Name of the task in tables.
        pub title: String,
        /// Names of the D coordinates of y.
        pub coordinates: Vec<String>,
        /// Unit of y.
        pub unit: String,
        /// Preprocessing of images.
        pub input: InputConfig,
        /// Backbone, which computes g_x.
        pub trunk: BackboneConfig,
        /// Settings that all heads share.
        pub head: HeadConfig,
        /// Training of the baselines.
        pub training: TrainingConfig,
        /// Energy-based model and its training.
        pub energy: EnergyConfig,
        /// Prediction by Algorithm S2.
        pub refinement: RefinementConfig,
        /// Grid on which densities are normalised, the same for each coordinate.
        pub density: Grid,
        /// Proposals that the supplement compares.
        pub ablation: AblationConfig,
        /// Objectives to compare with `energy.objective`.
        #[serde(default)]
        pub objectives: Vec<ObjectiveConfig>,
        /// Rows of the table.
        pub methods: Vec<MethodConfig>,
        /// Rows that the table quotes from the paper.
        #[serde(default)]
        pub quoted: Vec<QuotedConfig>,
        /// Training of heads on fixed features. Without this, each row trains its whole network.
        #[serde(default)]
        pub frozen: Option<FrozenConfig>,
        /// Number of training images to draw for the results if the test images are missing. With 0, the results are
        /// computed on the validation split.
        #[serde(default)]
        pub report: usize where 0..=1_000_000 => "images",
        /// Sizes of the splits, if the data are generated.
        #[serde(default)]
        pub generated: Option<GeneratedConfig>,
    }
}

/// Maximum number of points at which a density is computed.
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
    /// Returns D, the number of coordinates of y.
    pub fn dim(&self) -> usize {
        self.coordinates.len()
    }

    /// Returns the sizes of the energy head.
    pub fn energy_head(&self) -> EnergyHeadConfig {
        EnergyHeadConfig { dim: self.dim(), y_layers: self.head.y_layers.clone(), hidden: self.head.hidden }
    }

    /// Returns the training of the method with the key `method`.
    pub fn training_of(&self, method: &str) -> &TrainingConfig {
        if method == ENERGY { &self.energy.training } else { &self.training }
    }

    /// Returns the row with the key `key`.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if there is no such row. The message lists the keys.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        row(&self.methods, |method| &method.key, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_configuration_has_what_its_scale_needs() {
        for (name, _) in ExperimentConfig::EMBEDDED {
            let config = ExperimentConfig::embedded(name).unwrap();
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
