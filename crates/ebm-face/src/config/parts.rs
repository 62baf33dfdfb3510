//! Parts of an experiment's configuration.

use candle_core::Var;
use ebm_core::parametric::Baseline;
use ebm_core::{AnyObjective, GradientAscent, StepRule};
use ebm_data::faces::loader::{Augmentation, FaceTransform};
use ebm_data::transform::{ChannelOrder, Normalise};
use ebm_experiment::config::settings_table;
use ebm_nn::schedule::{Decay, Schedule};
use ebm_ops::optim::{Adam, ParamGroup};
use ebm_train::Updater;

use crate::network::TRUNK;

settings_table! {
    /// Preprocessing of images.
    pub struct InputConfig {
        /// Side of the network's input.
        pub size: usize where 16..=2048 => "pixels",
        /// Mean of each channel (RGB, values from 0 to 1), which is subtracted.
        pub mean: [f32; 3] where -1e3..=1e3,
        /// Standard deviation of each channel, by which the difference is divided.
        pub std: [f32; 3] where 1e-3..=1e3,
        /// Probability that a training image is mirrored.
        pub flip_probability: f64 where 0.0..=1.0,
        /// Factors by which mirroring multiplies the coordinates of y.
        pub flip_signs: Vec<f32> where -1.0..=1.0,
        /// Range of the random scale in training, before a crop of the input's size.
        pub scale: [f64; 2] where 0.1..=10.0,
    }
}

impl InputConfig {
    /// Returns the transform of training images if `train`, else the one without augmentation.
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

settings_table! {
    /// Settings that all heads share.
    pub struct HeadConfig {
        /// Widths of the layers of y in f(x, y).
        pub y_layers: Vec<usize> where 1..=65_536,
        /// Width of the hidden layer of every head.
        pub hidden: usize where 1..=65_536,
        /// Whether the biases of Cao et al.'s ranks start at the log-odds of the training targets instead of 0.
        /// A short training does not move them far enough from 0.
        #[serde(default)]
        pub ranks_at_log_odds: bool,
    }

    /// Adam with coupled weight decay.
    pub struct TrainingConfig {
        /// Passes over the training images.
        pub epochs: f64 where 1e-6..=1e6,
        /// Images per update.
        pub batch_size: usize where 1..=65_536 => "images",
        /// Learning rate of the head.
        pub learning_rate: f64 where 1e-9..=10.0,
        /// Weight decay of every parameter, added to its gradient.
        pub weight_decay: f64 where 0.0..=1.0,
        /// Epochs at which the learning rate falls to a tenth. The paper has none.
        #[serde(default)]
        pub milestones: Vec<f64> where 0.0..=1e6 => "epochs",
        /// Learning rate of the backbone, divided by the learning rate of the head.
        #[serde(default = "same_rate")]
        pub trunk_rate: f64 where 0.0..=100.0,
    }
}

fn same_rate() -> f64 {
    1.0
}

impl TrainingConfig {
    /// Returns the number of updates for `count` training images.
    pub fn steps(&self, count: usize) -> usize {
        self.step_of(self.epochs, count)
    }

    /// Returns the optimiser of `params` for `count` training images.
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

settings_table! {
    /// Energy-based model and its training.
    pub struct EnergyConfig {
        /// Loss, with the number and the proposal of its samples.
        pub objective: AnyObjective,
        /// Optimiser.
        pub training: TrainingConfig,
    }

    /// An energy model that is trained with another objective.
    pub struct ObjectiveConfig {
        /// Name in result files.
        pub key: String,
        /// Name in tables.
        pub title: String,
        /// Loss, which replaces `energy.objective`.
        pub objective: AnyObjective,
    }

    /// Settings of Algorithm S2.
    pub struct RefinementConfig {
        /// T, the number of steps.
        pub steps: usize where 0..=1000,
        /// Candidates for λ; the validation split chooses one of them.
        pub step_lengths: Vec<f64> where 0.0..=1e6,
        /// Ω₁ ≥ 0. A step that changes f by less ends the ascent.
        pub change_threshold: f64 where 0.0..=1e6,
        /// Ω₂ ≤ 0. A step that lowers f further than this ends the ascent.
        pub degeneration_tolerance: f64 where -1e6..=0.0,
    }
}

impl RefinementConfig {
    /// Returns Algorithm S2 with λ = `step_length`.
    pub fn ascent(&self, step_length: f64) -> GradientAscent {
        let rule = StepRule::EarlyStopping {
            change_threshold: self.change_threshold,
            degeneration_tolerance: self.degeneration_tolerance,
            keep_best: false,
        };
        GradientAscent { steps: self.steps, step_length: vec![step_length], decay: 1.0, rule }
    }
}

settings_table! {
    /// Ablation of σ in the supplement.
    pub struct AblationConfig {
        /// Standard deviations σ_l of each row.
        pub sigmas: Vec<Vec<f64>> where 1e-6..=1e4,
        /// MAE of each row in the paper, on its validation split.
        pub published: Vec<f64> where 0.0..=1e6,
    }

    /// A row of the table.
    pub struct MethodConfig {
        /// Name in result files.
        pub key: String,
        /// Name in tables.
        pub title: String,
        /// MAE and its spread in the paper, if the paper has the row.
        #[serde(default)]
        pub published: Option<[f64; 2]> where 0.0..=1e6,
        /// MAE after refinement and its spread in the paper, if the paper has them.
        #[serde(default)]
        pub published_refined: Option<[f64; 2]> where 0.0..=1e6,
        /// MAE of each coordinate and its spread in the paper, before and after refinement.
        #[serde(default)]
        pub published_coordinates: Option<[Vec<[f64; 2]>; 2]> where 0.0..=1e6,
        /// Parametric density or point estimate.
        pub baseline: Baseline,
    }

    /// Figures of another method, as the paper quotes them.
    pub struct QuotedConfig {
        /// Name in tables.
        pub title: String,
        /// Mean absolute error.
        pub published: f64 where 0.0..=1e6,
        /// Mean absolute error of each coordinate.
        pub published_coordinates: Vec<f64> where 0.0..=1e6,
    }

    /// Training of heads on fixed features.
    #[derive(Default)]
    pub struct FrozenConfig {
        /// Number of views of each training image: the image itself and augmented copies.
        pub views: usize where 1..=1000,
        /// Cells along each side of a grid over the map of the trunk's frozen blocks. g_x holds the mean of the map
        /// in each cell. With 0, g_x is the output of the trunk.
        #[serde(default)]
        pub grid: usize where 0..=64,
        /// Whether each head is trained with its own copy of the trunk's blocks above the frozen ones.
        #[serde(default)]
        pub finetuned: bool,
        /// Training of the backbone before it is frozen. Without this, a weight file is needed.
        #[serde(default)]
        pub trunk: Option<BackboneTraining>,
    }

    /// Training of a backbone that is then frozen.
    pub struct BackboneTraining {
        /// Key of the method whose head and loss train the backbone.
        pub method: String,
        /// Optimiser.
        pub training: TrainingConfig,
    }

    /// Sizes of the splits of generated faces.
    #[derive(Copy, Eq)]
    pub struct GeneratedConfig {
        /// Faces to train on.
        pub train: usize where 1..=1_000_000 => "faces",
        /// Faces to choose the step length on.
        pub validation: usize where 1..=1_000_000 => "faces",
        /// Faces to compute the results on.
        pub test: usize where 1..=1_000_000 => "faces",
    }
}
