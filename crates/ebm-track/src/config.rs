//! The settings of tracking's experiments.

pub use ebm_experiment::config::{AblationConfig, Settings};
use ebm_experiment::config::{row, settings};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::method::{MethodConfig, RivalConfig};
use crate::tracker::TrackerConfig;
use crate::training::BoxTraining;

settings! {
    /// Box modules, their training, and the tracker that they are compared in.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ExperimentConfig {
        /// How many times fewer channels than ATOM's the box module has in every layer.
        pub narrowed: usize where 1..=256,
        /// The box module's training, the same for every method.
        pub training: BoxTraining,
        /// What it learns from.
        pub pairs: PairsConfig,
        /// The rows of Table 3.
        pub methods: Vec<MethodConfig>,
        /// The trackers of Table 3 beside those that are compared here.
        #[serde(default)]
        pub rivals: Vec<RivalConfig>,
        /// The proposals of the supplement's ablation, for the energy model, with OP50, OP75 and AUC on
        /// OTB-100 and NFS together, in percent.
        pub ablation: Vec<AblationConfig<[f64; 3]>>,
        /// Factors of each configured step length among which the validation videos choose; none: it is taken
        /// as it is.
        #[serde(default)]
        pub step_factors: Vec<f64> where 0.0..=1e3,
        /// Times that each tracker, which draws numbers, runs over a dataset; figures are means over them.
        pub repetitions: usize where 1..=1000,
        /// The tracker.
        #[serde(default)]
        pub tracker: TrackerConfig,
        /// Generated videos, at every scale but the paper's.
        #[serde(default)]
        pub generated: Option<GeneratedConfig>,
        /// How modules learn from still images and generated videos, at every scale but the paper's.
        #[serde(default)]
        pub stills: Option<StillsConfig>,
    }

    /// Pairs of frames.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct PairsConfig {
        /// The greatest distance of the two frames.
        pub max_gap: usize where 0..=1_000_000 => "frames",
    }

    /// How many generated videos.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct GeneratedConfig {
        /// To train on.
        pub train: usize where 1..=1_000_000 => "videos",
        /// To choose step lengths on, where no images are learned from.
        pub validation: usize where 1..=1_000_000 => "videos",
        /// To measure on, where no images are learned from.
        pub test: usize where 1..=1_000_000 => "videos",
    }

    /// How box modules are trained on still images and generated videos, and judged meanwhile.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct StillsConfig {
        /// Targets whose crops are in memory at a time; a multiple of the batch.
        pub objects: usize where 1..=1_000_000 => "targets",
        /// Reference crops of each, and as many test crops, of which every one meets every other.
        pub views: usize where 1..=64 => "crops",
        /// √(width · height) of the smallest boxes that are taken.
        pub least_side: f64 where 0.0..=1e4 => "pixels",
        /// The weight of the generated videos beside sets of images, of which each has the weight 1.
        pub video_weight: f64 where 0.0..=1e3,
        /// Held-out boxes, of all sets together.
        pub held_out: usize where 1..=1_000_000 => "boxes",
        /// The first so many of them choose step lengths.
        pub choosing: usize where 1..=1_000_000 => "boxes",
        /// After so many pairs, and at the end, held-out boxes are measured.
        pub curve: Vec<usize> where 1..=1_000_000_000 => "pairs",
    }
}

impl Settings for ExperimentConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[
        ("mini", include_str!("../configs/mini.toml")),
        ("paper", include_str!("../configs/paper.toml")),
        ("stills", include_str!("../configs/stills.toml")),
    ];
}

impl ExperimentConfig {
    /// The key of the energy model.
    pub const ENERGY: &'static str = "ebm";

    /// The row of this key.
    ///
    /// # Errors
    /// When there is none, naming those that there are.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        row(&self.methods, |method| &method.key, key)
    }

    /// The same with the rows of the supplement's ablation in the place of its methods: the energy model with samples
    /// from each of the proposals.
    ///
    /// # Errors
    /// When there is no energy model, or a standard deviation is not positive.
    pub fn ablated(&self) -> Result<Self> {
        let energy = self.method(Self::ENERGY)?;
        let row = |sigmas: &[f64]| {
            let names: Vec<String> = sigmas.iter().map(f64::to_string).collect();
            let (key, title) = (format!("sigma-{}", names.join("_")), names.join(", "));
            Ok(MethodConfig { key, title, published: None, ..energy.with_sigmas(sigmas)? })
        };
        let methods = self.ablation.iter().map(|ablated| row(&ablated.sigmas));
        Ok(Self { methods: methods.collect::<Result<_>>()?, ..self.clone() })
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
    fn an_unknown_key_is_named() {
        let text = "extends = 'paper'\n[tracker]\nserach_factor = 4.0\n";
        let error = ExperimentConfig::parse("mine", text).unwrap_err().to_string();
        assert!(error.contains("did you mean `search_factor`?"), "{error}");
    }

    #[test]
    fn a_refinement_that_can_not_climb_is_refused() {
        let text = "extends = 'paper'\nmethods.ebm.refinement.step_length = [-1e-4, 1e-3]";
        let error = ExperimentConfig::parse("mine", text).unwrap_err().to_string();
        assert!(error.contains("methods.ebm.refinement.step_length[0] = -0.0001; it must be"), "{error}");
    }

    #[test]
    fn the_paper_is_trained_as_the_paper_says() {
        let config = ExperimentConfig::embedded("paper").unwrap();
        let energy = config.method(ExperimentConfig::ENERGY).unwrap();
        assert_eq!(energy.objective.gaussian().unwrap().sigmas(), [[0.05; 4], [0.5; 4]]);
        assert_eq!((energy.refinement.steps, energy.refinement.step_length), (10, [2e-4, 1e-3]));
        let BoxTraining { batch_size, epochs, learning_rate, .. } = config.training;
        assert_eq!((batch_size, epochs, learning_rate, config.narrowed), (64, 50, 1e-3, 1));
        assert_eq!((config.tracker, config.repetitions), (TrackerConfig::default(), 5));
    }
}
