//! Settings of the detection experiments.

mod detector;
mod method;
mod refiner;

pub use ebm_data::transform::{ChannelOrder, Resample};
pub use ebm_experiment::config::{AblationConfig, Settings};
use ebm_experiment::config::{Setting, row, settings_table};
use serde::{Deserialize, Serialize};

pub use detector::{
    BackboneConfig, DetectorBody, DetectorConfig, InputConfig, MapType, NormKind, RoiConfig, RpnConfig,
};
pub use method::{ConfidenceConfig, MethodConfig, Published};
pub use refiner::{BodyKind, RefinerConfig, RefinerNetworkConfig, ViewConfig};

pub use crate::energy_head::Coordinates;

use crate::{Error, Result};

settings_table! {
    /// Settings of a detector, its training, and the rows of the tables.
    pub struct ExperimentConfig {
        /// Network.
        pub detector: DetectorConfig,
        /// Training of the detector itself.
        pub base: TrainingConfig,
        /// Training of every density.
        pub density: TrainingConfig,
        /// Training of every confidence; each has its own learning rate.
        pub confidence: TrainingConfig,
        /// Rows of Table 2.
        pub methods: Vec<MethodConfig>,
        /// Rows of the energy model with every objective.
        pub objectives: Vec<MethodConfig>,
        /// Factors of the configured step lengths to choose from on the validation images; empty for no choice.
        #[serde(default)]
        pub step_factors: Vec<f64> where 0.0..=1e3,
        /// Numbers of generated scenes, at mini scale.
        #[serde(default)]
        pub generated: Option<GeneratedConfig>,
        /// Proposals of Table 1 and its supplement for the energy model, with their published AP on val2017 in
        /// per cent.
        pub ablation: Vec<AblationConfig<f64>>,
        /// Points of Figure 3a.
        #[serde(default)]
        pub figure3a: Vec<TradeConfig>,
    }

    /// Point of Figure 3a.
    #[derive(Copy)]
    pub struct TradeConfig {
        /// T of Algorithm S1.
        pub steps: usize where 0..=10_000,
        /// AP on val2017 in per cent, and frames per second on a TITAN Xp, as the figure shows them.
        pub published: [f64; 2] where 0.0..=1e4,
    }

    /// Numbers of generated scenes.
    #[derive(Copy, Eq)]
    pub struct GeneratedConfig {
        /// Size of the detector's training set.
        pub base: usize where 1..=1_000_000 => "scenes",
        /// Number of these, from the start, that the branches are trained on.
        pub heads: usize where 1..=1_000_000 => "scenes",
        /// Size of the validation set, which step lengths are chosen on.
        pub validation: usize where 1..=1_000_000 => "scenes",
        /// Size of the test set, which results are measured on.
        pub test: usize where 1..=1_000_000 => "scenes",
    }

    /// Settings of an optimiser and its schedule.
    pub struct TrainingConfig {
        /// Number of updates.
        pub steps: usize where 1..=1_000_000_000,
        /// Images per update.
        pub batch_size: usize where 1..=65_536 => "images",
        /// Optimiser: `sgd` (momentum 0.9, biases at twice the rate and without decay) or `adam`.
        pub optimizer: OptimizerKind,
        /// Base learning rate.
        pub learning_rate: f64 where 1e-9..=10.0,
        /// Weight decay, coupled.
        pub weight_decay: f64 where 0.0..=1.0,
        /// Number of steps of linear warm-up.
        pub warmup_steps: usize where 0..=1_000_000_000,
        /// Share of the base rate that warm-up starts from.
        pub warmup_factor: f64 where 0.0..=1.0,
        /// Steps at which the rate is multiplied by `decay`.
        pub milestones: Vec<usize> where 0..=10_000_000_000 => "steps",
        /// Factor of the rate at each of the `milestones`.
        pub decay: f64 where 1e-6..=1.0,
        /// Upper bound of the gradient's norm; 0 for none.
        pub gradient_clip: f64 where 0.0..=1e6,
    }
}

/// Optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// SGD with momentum 0.9.
    Sgd,
    /// Adam.
    Adam,
}

impl Setting for OptimizerKind {}

settings_table! {
    /// Settings of FastestDet's inference.
    pub struct FastestDetConfig {
        /// Height and width of the network's input, a multiple of 32; images of any shape are resized to it.
        pub side: usize where 32..=4096 => "pixels",
        /// Least score of a detection.
        pub score_threshold: f32 where 0.0..=1.0,
        /// IoU threshold of suppression, class by class.
        pub nms: f32 where 0.0..=1.0,
    }
}

impl Settings for FastestDetConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] =
        &[("fastestdet", include_str!("../../configs/fastestdet.toml"))];

    fn check(&self) -> std::result::Result<(), String> {
        let reason = format!("side = {}; the network halves it five times: give a multiple of 32", self.side);
        require(self.side.is_multiple_of(32), &reason)
    }
}

/// Returns `reason` as an error, unless the requirement `holds`.
fn require(holds: bool, reason: &str) -> std::result::Result<(), String> {
    if holds { Ok(()) } else { Err(reason.to_owned()) }
}

impl Settings for ExperimentConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[
        ("mini", include_str!("../../configs/mini.toml")),
        ("paper", include_str!("../../configs/paper.toml")),
        ("nuclei", include_str!("../../configs/nuclei.toml")),
        ("people", include_str!("../../configs/people.toml")),
        ("torchvision", include_str!("../../configs/torchvision.toml")),
    ];

    fn check(&self) -> std::result::Result<(), String> {
        for method in self.rows() {
            let is_one = method.density.is_none() || method.confidence.is_none();
            require(is_one, &format!("methods.{}: a density or a confidence, not both", method.key))?;
        }
        self.detector.check()
    }
}

impl ExperimentConfig {
    /// Key of the detector's own regression.
    pub const DIRECT: &'static str = "direct";
    /// Key of the energy model of Table 2.
    pub const ENERGY: &'static str = "ebm";

    fn rows(&self) -> impl Iterator<Item = &MethodConfig> {
        self.methods.iter().chain(&self.objectives)
    }

    /// Returns the row with this `key`, from Table 2 or the objectives.
    ///
    /// # Errors
    /// When there is no such row; the message names the known keys.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        row(self.rows(), |method| &method.key, key)
    }

    /// Returns the settings with `method` in place of the row with its key.
    #[must_use]
    pub fn with_method(&self, method: &MethodConfig) -> Self {
        let mut config = self.clone();
        let rows = config.methods.iter_mut().chain(&mut config.objectives);
        rows.filter(|row| row.key == method.key).for_each(|row| row.clone_from(method));
        config
    }

    /// Returns the sizes of the generated splits.
    ///
    /// # Errors
    /// [`Error::Config`] when the settings have none.
    pub fn scenes(&self) -> Result<GeneratedConfig> {
        let reason = "mini scale needs [generated], the sizes of its splits";
        self.generated.ok_or(Error::config("generated", reason))
    }

    /// Returns the training of the layers that `method` adds to the detector; `None` if it adds none.
    pub fn training(&self, method: &MethodConfig) -> Option<TrainingConfig> {
        match (&method.confidence, &method.density) {
            (Some(own), _) => {
                Some(TrainingConfig { learning_rate: own.learning_rate, ..self.confidence.clone() })
            }
            (None, Some(_)) => Some(self.density.clone()),
            (None, None) => None,
        }
    }

    /// Returns all three trainings.
    pub fn trainings_mut(&mut self) -> [&mut TrainingConfig; 3] {
        [&mut self.base, &mut self.density, &mut self.confidence]
    }
}
