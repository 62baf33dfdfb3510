//! Settings of an experiment: TOML, embedded in the binary, every key checked.

use std::collections::BTreeMap;
use std::path::Path;

use ebm_data::files::read_settings;
use ebm_eval::Expected;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::method::{Method, MethodSettings};
use crate::tracker::TrackerConfig;
use crate::training::{BoxTraining, SmallBackboneConfig};

/// Box modules, their training, and the tracker that they are compared in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentConfig {
    /// What it should come to; no part of the settings, and not written with them.
    #[serde(default, skip_serializing)]
    pub expected: Option<Expected>,
    /// How many times fewer channels than ATOM's the box module has in every layer.
    pub narrowed: usize,
    /// The backbone that is trained where there is no weight file.
    pub small_backbone: SmallBackboneConfig,
    /// The box module's training, the same for every method.
    pub training: BoxTraining,
    /// What it learns from.
    pub pairs: PairsConfig,
    /// Training and inference of each method; the paper's where nothing is said.
    #[serde(default)]
    pub methods: BTreeMap<Method, MethodSettings>,
    /// Factors of each configured step length among which the validation videos choose; none: it is taken as it is.
    #[serde(default)]
    pub step_factors: Vec<f64>,
    /// Times that each tracker, which draws numbers, runs over a dataset; figures are means over them.
    #[serde(default = "published_repetitions")]
    pub repetitions: usize,
    /// The tracker.
    #[serde(default)]
    pub tracker: TrackerConfig,
    /// Generated videos, at mini scale.
    #[serde(default)]
    pub generated: Option<GeneratedConfig>,
}

/// Pairs of frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairsConfig {
    /// The greatest distance of the two frames.
    pub max_gap: usize,
    /// So many batches' features are kept in half precision and used again and again; 0: every batch is new.
    pub kept_batches: usize,
    /// The share of pairs from COCO's images, where they are there.
    pub coco_weight: f64,
}

/// How many generated videos.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratedConfig {
    /// To train on.
    pub train: usize,
    /// To choose step lengths on.
    pub validation: usize,
    /// To measure on.
    pub test: usize,
}

/// ATOM's authors report means of five runs, and so does the paper.
fn published_repetitions() -> usize {
    5
}

const EMBEDDED: [(&str, &str); 2] =
    [("mini", include_str!("../configs/mini.toml")), ("paper", include_str!("../configs/paper.toml"))];

impl ExperimentConfig {
    /// An embedded configuration: `mini` or `paper`.
    ///
    /// # Errors
    /// [`Error::Settings`] for another name.
    pub fn embedded(name: &str) -> Result<Self> {
        match EMBEDDED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(name, text),
            None => Err(Error::Settings {
                name: name.to_owned(),
                reason: "there is no such embedded configuration; there are mini and paper".to_owned(),
            }),
        }
    }

    /// Parses TOML.
    ///
    /// # Errors
    /// [`Error::Settings`] with the key that is unknown, missing or out of range.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let fail = |reason: String| Error::Settings { name: name.to_owned(), reason };
        let config: Self = toml::from_str(text).map_err(|error| fail(error.to_string()))?;
        if config.narrowed == 0 || config.repetitions == 0 || config.training.batch_size < 2 {
            let reason = "narrowed and repetitions must be at least 1, training.batch_size at least 2";
            return Err(fail(reason.to_owned()));
        }
        if !config.step_factors.iter().all(|factor| factor.is_finite() && *factor >= 0.0) {
            return Err(fail("step_factors must not be negative".to_owned()));
        }
        Ok(config)
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and when the file can not be read.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_settings(path)
            .map_err(|error| Error::Settings { name: name.clone(), reason: error.to_string() })?;
        Self::parse(&name, &text)
    }

    /// The same as TOML.
    ///
    /// # Errors
    /// [`Error::Settings`] when a number has no form in TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::Settings { name: "resolved".to_owned(), reason: error.to_string() })
    }

    /// The settings of a method.
    pub fn method(&self, method: Method) -> MethodSettings {
        self.methods.get(&method).cloned().unwrap_or_else(|| method.paper())
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
        assert!(ExperimentConfig::embedded("huge").unwrap_err().to_string().contains("huge"));
    }

    #[test]
    fn an_unknown_key_is_named() {
        let text = format!("{}\n[tracker]\nserach_factor = 4.0\n", EMBEDDED[1].1);
        let error = ExperimentConfig::parse("paper", &text).unwrap_err().to_string();
        assert!(error.contains("serach_factor"), "{error}");
    }

    #[test]
    fn the_paper_is_trained_as_the_paper_says() {
        let config = ExperimentConfig::embedded("paper").unwrap();
        assert_eq!(config.method(Method::Ebm), Method::Ebm.paper());
        assert_eq!((config.training, config.narrowed), (BoxTraining::paper(), 1));
        assert_eq!((config.tracker, config.repetitions), (TrackerConfig::default(), 5));
    }
}
