//! The parts of an experiment's configuration.

use candle_core::Var;
use ebm_core::parametric::Baseline;
use ebm_core::{AnyObjective, GradientAscent, StepRule};
use ebm_data::faces::loader::{Augmentation, FaceTransform};
use ebm_data::transform::{ChannelOrder, Normalise};
use ebm_experiment::config::settings;
use ebm_nn::schedule::{Decay, Schedule};
use ebm_ops::optim::{Adam, ParamGroup};
use ebm_train::Updater;
use serde::{Deserialize, Serialize};

use crate::network::TRUNK;

settings! {
    /// From an image to the network's input.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct InputConfig {
        /// The side of the input, in pixels.
        pub size: usize where 16..=2048 => "pixels",
        /// Subtracted from samples in 0 to 1, RGB.
        pub mean: [f32; 3] where -1e3..=1e3,
        /// Divided by.
        pub std: [f32; 3] where 1e-3..=1e3,
        /// The probability of a mirror image in training.
        pub flip_probability: f64 where 0.0..=1.0,
        /// What mirroring multiplies each coordinate of y by.
        pub flip_signs: Vec<f32> where -1.0..=1.0,
        /// The range of the scale in training, before a crop of the input's size.
        pub scale: [f64; 2] where 0.1..=10.0,
    }
}

impl InputConfig {
    /// The transform of training images, or of all others.
    pub fn transform(&self, train: bool) -> FaceTransform {
        let normalise =
            Normalise { order: ChannelOrder::Rgb, scale: 1.0 / 255.0, mean: self.mean, std: self.std };
        let augmentation = Augmentation {
            flip_probability: self.flip_probability,
            flip_signs: self.flip_signs.clone(),
            scale: self.scale,
        };
        FaceTransform { size: self.size, normalise, augmentation: train.then_some(augmentation) }
    }
}

settings! {
    /// What all heads share.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct HeadConfig {
        /// The widths of the layers of y in f(x, y).
        pub y_layers: Vec<usize> where 1..=65_536,
        /// The width of the hidden layer of every head.
        pub hidden: usize where 1..=65_536,
        /// Whether the biases of Cao et al.'s ranks begin with the log-odds of the training targets instead of 0,
        /// from which few steps do not carry them far enough.
        #[serde(default)]
        pub ranks_at_log_odds: bool,
    }

    /// Adam with coupled weight decay.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TrainingConfig {
        /// Passes over the training images.
        pub epochs: f64 where 1e-6..=1e6,
        /// Images per update.
        pub batch_size: usize where 1..=65_536 => "images",
        /// The learning rate.
        pub learning_rate: f64 where 1e-9..=10.0,
        /// Weight decay of every parameter, added to its gradient.
        pub weight_decay: f64 where 0.0..=1.0,
        /// Epochs at which the learning rate falls to a tenth. The paper has none.
        #[serde(default)]
        pub milestones: Vec<f64> where 0.0..=1e6 => "epochs",
        /// The backbone's learning rate over that of the head.
        #[serde(default = "same_rate")]
        pub trunk_rate: f64 where 0.0..=100.0,
    }
}

fn same_rate() -> f64 {
    1.0
}

impl TrainingConfig {
    /// The number of updates for `count` images.
    pub fn steps(&self, count: usize) -> usize {
        self.step_of(self.epochs, count)
    }

    /// The optimiser over `params`, for `count` images.
    pub fn updater(&self, params: Vec<(String, Var)>, count: usize) -> Updater {
        let group = |name: &str| {
            let lr_multiplier = if name.starts_with(TRUNK) { self.trunk_rate } else { 1.0 };
            ParamGroup { lr_multiplier, weight_decay: self.weight_decay }
        };
        let optimizer = Adam::new(params, group);
        let milestones = self.milestones.iter().map(|&epoch| self.step_of(epoch, count) as u64).collect();
        let decay = Decay::MultiStep { milestones, gamma: 0.1 };
        let schedule = Schedule { base: self.learning_rate, warmup: None, decay };
        Updater::new(Box::new(optimizer), schedule, None)
    }

    fn step_of(&self, epoch: f64, count: usize) -> usize {
        (epoch * count as f64 / self.batch_size as f64).ceil() as usize
    }
}

settings! {
    /// The energy-based model and its training.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct EnergyConfig {
        /// The loss, with the number of samples and where they come from.
        pub objective: AnyObjective,
        /// The optimiser.
        pub training: TrainingConfig,
    }

    /// The energy model trained with another objective.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ObjectiveConfig {
        /// Its name in result files.
        pub key: String,
        /// Its name in tables.
        pub title: String,
        /// The loss, in the place of the table's.
        pub objective: AnyObjective,
    }

    /// Algorithm S2.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RefinementConfig {
        /// T.
        pub steps: usize where 0..=10_000,
        /// The values of λ that the validation split chooses from.
        pub step_lengths: Vec<f64> where 0.0..=1e6,
        /// Ω₁.
        pub change_threshold: f64 where 0.0..=1e6,
        /// Ω₂.
        pub degeneration_tolerance: f64 where -1e6..=0.0,
    }
}

impl RefinementConfig {
    /// Algorithm S2 with λ = `step_length`.
    pub fn ascent(&self, step_length: f64) -> GradientAscent {
        let rule = StepRule::EarlyStopping {
            change_threshold: self.change_threshold,
            degeneration_tolerance: self.degeneration_tolerance,
            keep_best: false,
        };
        GradientAscent { steps: self.steps, step_length: vec![step_length], decay: 1.0, rule }
    }
}

settings! {
    /// The supplement's study of σ.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct AblationConfig {
        /// σ_l of each row.
        pub sigmas: Vec<Vec<f64>> where 1e-6..=1e4,
        /// The paper's MAE of each row, on its validation split.
        pub published: Vec<f64> where 0.0..=1e6,
    }

    /// A row of the table.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct MethodConfig {
        /// Its name in result files.
        pub key: String,
        /// Its name in tables.
        pub title: String,
        /// The paper's MAE and its spread, where the paper has the row.
        #[serde(default)]
        pub published: Option<[f64; 2]> where 0.0..=1e6,
        /// The same after refinement, where the paper has it.
        #[serde(default)]
        pub published_refined: Option<[f64; 2]> where 0.0..=1e6,
        /// The paper's MAE of each coordinate and its spread, before refinement and after it, where y has
        /// several.
        #[serde(default)]
        pub published_coordinates: Option<[Vec<[f64; 2]>; 2]> where 0.0..=1e6,
        /// The model.
        pub baseline: Baseline,
    }

    /// Another method's figures, as the paper quotes them.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct QuotedConfig {
        /// Its name in tables.
        pub title: String,
        /// The mean absolute error.
        pub published: f64 where 0.0..=1e6,
        /// That of each coordinate.
        pub published_coordinates: Vec<f64> where 0.0..=1e6,
    }

    /// Training of heads on fixed features.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct FrozenConfig {
        /// How many views of a training image have features or maps: the image itself and augmented ones.
        pub views: usize where 1..=1000,
        /// Along each side the cells of the grid over the map of the trunk's frozen blocks whose means are
        /// g_x; with 0 g_x is the trunk's.
        #[serde(default)]
        pub grid: usize where 0..=64,
        /// Whether a copy of the trunk's blocks above the frozen ones is trained with each head.
        #[serde(default)]
        pub finetuned: bool,
        /// How the backbone is trained before it is frozen; without it, its weights are given.
        #[serde(default)]
        pub trunk: Option<BackboneTraining>,
    }

    /// Training of a backbone that is then frozen.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct BackboneTraining {
        /// The key of the method whose head and loss it is trained with.
        pub method: String,
        /// The optimiser.
        pub training: TrainingConfig,
    }

    /// How many generated faces each split has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct GeneratedConfig {
        /// Training.
        pub train: usize where 1..=1_000_000 => "faces",
        /// The step length is chosen on these.
        pub validation: usize where 1..=1_000_000 => "faces",
        /// The results are computed on these.
        pub test: usize where 1..=1_000_000 => "faces",
    }
}
