//! Configuration: TOML, embedded in the binary, one file extending another, every key checked.

mod extends;
mod parts;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use parts::{
    AblationConfig, EnergyConfig, FrozenConfig, GeneratedConfig, HeadConfig, InputConfig, MethodConfig,
    RefinementConfig, TrainingConfig, TrunkTraining,
};

use crate::error::{Error, Result};
use crate::{BackboneConfig, EnergyHeadConfig};
use ebm_core::Grid;
use ebm_core::parametric::Parametric;
use ebm_data::files::read_settings;
use ebm_eval::Expected;

/// A table of the paper for faces: the data's form, the networks, their training, and the rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentConfig {
    /// What it should come to; no part of the settings, and not written with them.
    #[serde(default, skip_serializing)]
    pub expected: Option<Expected>,
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
    /// The rows of the table.
    pub methods: Vec<MethodConfig>,
    /// Training of heads on fixed features; without it the whole network is trained for each row.
    #[serde(default)]
    pub frozen: Option<FrozenConfig>,
    /// Sizes of the generated splits, where the data are generated.
    #[serde(default)]
    pub generated: Option<GeneratedConfig>,
}

/// Names and texts of the embedded configurations.
const EMBEDDED: [(&str, &str); 6] = [
    ("age_paper", include_str!("../../configs/age_paper.toml")),
    ("age_frozen", include_str!("../../configs/age_frozen.toml")),
    ("age_mini", include_str!("../../configs/age_mini.toml")),
    ("head_pose_paper", include_str!("../../configs/head_pose_paper.toml")),
    ("head_pose_frozen", include_str!("../../configs/head_pose_frozen.toml")),
    ("head_pose_mini", include_str!("../../configs/head_pose_mini.toml")),
];

impl ExperimentConfig {
    /// An embedded configuration: `age` or `head_pose`, then `_paper`, `_frozen` or `_mini`.
    ///
    /// # Errors
    /// [`Error::Settings`] naming those that there are.
    pub fn embedded(name: &str) -> Result<Self> {
        Self::parse(name, extends::embedded(name)?)
    }

    /// Parses TOML; `extends = "…"` names an embedded configuration whose settings hold where the text has none.
    ///
    /// # Errors
    /// [`Error::Settings`] naming an unknown, missing or impossible setting.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let fail = |reason: String| Error::Settings { name: name.to_owned(), reason };
        let table = extends::resolve(name, text)?;
        let config: Self = table.try_into().map_err(|error: toml::de::Error| fail(error.to_string()))?;
        config.check().map_err(fail)?;
        Ok(config)
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// [`Error::Settings`] naming the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_settings(path)
            .map_err(|error| Error::Settings { name: name.clone(), reason: error.to_string() })?;
        Self::parse(&name, &text)
    }

    /// The same as TOML, without `extends`.
    ///
    /// # Errors
    /// [`Error::Settings`] when a number has no form in TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::Settings { name: "resolved".into(), reason: error.to_string() })
    }

    /// D, the number of coordinates of y.
    pub fn dim(&self) -> usize {
        self.coordinates.len()
    }

    /// The energy head.
    pub fn energy_head(&self) -> EnergyHeadConfig {
        EnergyHeadConfig { dim: self.dim(), y_layers: self.head.y_layers.clone(), hidden: self.head.hidden }
    }

    /// The row with this key.
    ///
    /// # Errors
    /// [`Error::Settings`] naming those that there are.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        self.methods.iter().find(|method| method.key == key).ok_or_else(|| {
            let keys: Vec<&str> = self.methods.iter().map(|method| method.key.as_str()).collect();
            let reason = format!("there is no method `{key}`; there are {}", keys.join(", "));
            Error::Settings { name: "methods".into(), reason }
        })
    }

    fn check(&self) -> std::result::Result<(), String> {
        let dim = self.dim();
        if dim == 0 {
            return Err("coordinates: at least one is needed".into());
        }
        if self.input.flip_signs.len() != dim {
            return Err(format!("input.flip_signs: {} for {dim} coordinates", self.input.flip_signs.len()));
        }
        for method in &self.methods {
            if method.baseline.dim() != dim {
                let found = method.baseline.dim();
                return Err(format!("methods.{}: {found} coordinates instead of {dim}", method.key));
            }
        }
        for method in &self.methods {
            let published = method.published_coordinates.iter().flatten();
            if let Some(figures) = published.map(Vec::len).find(|&figures| figures != dim) {
                let key = &method.key;
                return Err(format!("methods.{key}.published_coordinates: {figures} for {dim} coordinates"));
            }
        }
        if self.ablation.sigmas.len() != self.ablation.published.len() {
            return Err("ablation: as many published figures as sigmas are needed".into());
        }
        self.training.check("training")?;
        self.energy.training.check("energy.training")?;
        if let Some(frozen) = &self.frozen {
            if frozen.views == 0 {
                return Err("frozen.views: at least 1".into());
            }
            if let Some(trunk) = &frozen.trunk {
                trunk.training.check("frozen.trunk.training")?;
                self.method(&trunk.method).map_err(|error| format!("frozen.trunk: {error}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_configuration_survives_a_round_trip() {
        for (name, _) in EMBEDDED {
            let config = ExperimentConfig { expected: None, ..ExperimentConfig::embedded(name).unwrap() };
            assert_eq!(ExperimentConfig::parse(name, &config.to_toml().unwrap()).unwrap(), config, "{name}");
            assert_eq!(config.frozen.is_some(), !name.ends_with("paper"), "{name}");
            assert_eq!(config.generated.is_some(), name.ends_with("mini"), "{name}");
        }
    }

    #[test]
    fn a_configuration_that_extends_keeps_what_it_does_not_name() {
        let text = "extends = \"age_paper\"\n[energy.training]\nepochs = 3.0\n";
        let (config, paper) = (
            ExperimentConfig::parse("mine", text).unwrap(),
            ExperimentConfig::embedded("age_paper").unwrap(),
        );
        assert_eq!(config.energy.training.epochs, 3.0);
        assert_eq!(config.energy.training.batch_size, paper.energy.training.batch_size);
        assert_eq!(config.methods, paper.methods);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| ExperimentConfig::parse("mine", text).unwrap_err().to_string();
        assert!(message("extends = \"age\"").contains("age_paper"));
        assert!(message("extends = \"age_paper\"\n[energy]\nsigma = 3").contains("sigma"));
        assert!(message("extends = \"age_paper\"\n[training]\nepochs = -1.0").contains("training.epochs"));
        assert!(message("extends = \"age_paper\"\ncoordinates = [\"a\", \"b\"]").contains("flip_signs"));
        assert!(message("title = ").contains("mine"));
    }
}
