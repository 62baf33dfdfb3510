//! Settings of the experiments on tracking.

pub use ebm_experiment::config::{AblationConfig, Settings};
use ebm_experiment::config::{row, settings_table};

use crate::Result;
use crate::method::{MethodConfig, RivalConfig};
use crate::tracker::TrackerConfig;
use crate::training::BoxTraining;

settings_table! {
    /// An experiment: box modules, their training, and the tracker that compares them.
    pub struct ExperimentConfig {
        /// Factor by which every layer of the box module has fewer channels than ATOM's.
        pub narrowed: usize where 1..=256,
        /// Training of the box module, the same for every method.
        pub training: BoxTraining,
        /// Pairs of frames to train on.
        pub pairs: PairsConfig,
        /// Rows of Table 3.
        pub methods: Vec<MethodConfig>,
        /// Other trackers, which Table 3 quotes.
        #[serde(default)]
        pub rivals: Vec<RivalConfig>,
        /// Proposals of the supplement's ablation of the energy model, with OP50, OP75 and AUC on OTB-100 and NFS
        /// together, in percent.
        pub ablation: Vec<AblationConfig<[f64; 3]>>,
        /// Candidates for a factor of the configured step lengths; held-out boxes choose one of them. An empty list
        /// keeps the step lengths.
        #[serde(default)]
        pub step_factors: Vec<f64> where 0.0..=1e3,
        /// Number of runs of each tracker over a dataset. A tracker is random, and figures are means over the runs.
        pub repetitions: usize where 1..=1000,
        /// Tracker.
        #[serde(default)]
        pub tracker: TrackerConfig,
        /// Numbers of generated videos, except at paper scale.
        #[serde(default)]
        pub generated: Option<GeneratedConfig>,
        /// Training on still images and generated videos, except at paper scale.
        #[serde(default)]
        pub stills: Option<StillsConfig>,
    }

    /// Settings of the pairs of frames.
    pub struct PairsConfig {
        /// Maximum distance of the two frames.
        pub max_gap: usize where 0..=1_000_000 => "frames",
    }

    /// Numbers of generated videos.
    pub struct GeneratedConfig {
        /// Videos to train on.
        pub train: usize where 1..=1_000_000 => "videos",
        /// Videos to choose step lengths on, if there are no still images to train on.
        pub validation: usize where 1..=1_000_000 => "videos",
        /// Videos to measure on, if there are no still images to train on.
        pub test: usize where 1..=1_000_000 => "videos",
    }

    /// Training of box modules on still images and generated videos, and their measurement meanwhile.
    pub struct StillsConfig {
        /// Number of targets whose crops are in memory at a time, a multiple of the batch size.
        pub objects: usize where 1..=1_000_000 => "targets",
        /// Number of reference crops and of test crops of each target, which are all paired with each other.
        pub views: usize where 1..=64 => "crops",
        /// Minimum √(width · height) of the boxes to train on.
        pub least_side: f64 where 0.0..=1e4 => "pixels",
        /// Weight of the generated videos. Each set of images has the weight 1.
        pub video_weight: f64 where 0.0..=1e3,
        /// Number of held-out boxes, over all sets.
        pub held_out: usize where 1..=1_000_000 => "boxes",
        /// Number of held-out boxes that choose step lengths, taken from the start of each set.
        pub choosing: usize where 1..=1_000_000 => "boxes",
        /// Numbers of pairs after which held-out boxes are measured. They are also measured at the end.
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
    /// Key of the energy model.
    pub const ENERGY: &'static str = "ebm";

    /// Returns the row with the key `key`.
    ///
    /// # Errors
    /// When there is no such row. The message lists the keys.
    pub fn method(&self, key: &str) -> Result<&MethodConfig> {
        row(&self.methods, |method| &method.key, key)
    }

    /// Returns these settings with the supplement's ablation as methods: the energy model with samples from each
    /// proposal in `ablation`.
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
