//! A backbone of one's own, where no weight file is at hand: it learns to tell targets apart.
//!
//! The target of a crop is pooled from layer2 and layer3, and a linear layer says which video it is from.
//! Both frames of a pair have the same answer, so that what a target keeps from frame to frame is what is
//! learnt.

use candle_core::{D, DType, Device, Tensor};
use candle_nn::VarBuilder;
use ebm_core::math::log_softmax;
use ebm_experiment::config::settings;
use ebm_nn::init;
use ebm_nn::ops::{linear, prroi_pool};
use ebm_nn::optim::{Adam, ParamGroup};
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_nn::schedule::{Decay, Schedule};
use ebm_train::{GradientTask, Learner, Loss, Updater};
use serde::{Deserialize, Serialize};

use super::stream::CropStream;
use crate::box_module::corners;
use crate::{Error, Result};

/// The prefix of the network's parameters, in front of torchvision's names.
pub const PREFIX: &str = "backbone.";

settings! {
    /// A small residual network and its training.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct SmallBackboneConfig {
        /// Channels of the stem; layer2 has twice, layer3 four times as many.
        pub width: usize where 1..=1024,
        /// Residual blocks of layer1 to layer3.
        pub blocks: [usize; 3] where 1..=64,
        /// Pairs in a batch.
        pub batch_size: usize where 1..=65_536 => "pairs",
        /// Updates.
        pub steps: usize where 1..=1_000_000_000,
        /// Adam's rate, which falls along half a cosine.
        pub learning_rate: f64 where 1e-9..=10.0,
    }
}

/// A small backbone under the loss of telling `videos` apart.
pub struct SmallBackboneTask {
    network: ResNet,
    weight: Tensor,
    bias: Tensor,
    learner: Learner,
    crops: CropStream,
}

impl SmallBackboneTask {
    /// A new network in `store`, for crops of `videos` sequences of the first source.
    ///
    /// # Errors
    /// When a size is 0.
    pub fn new(
        config: &SmallBackboneConfig,
        store: ParamStore,
        crops: CropStream,
        videos: usize,
        device: &Device,
    ) -> Result<Self> {
        let [one, two, three] = config.blocks;
        let resnet = ResNetConfig {
            width: config.width,
            layers: [one, two, three, 0],
            ..ResNetConfig::resnet18(Norm::Train)
        };
        let vb: VarBuilder = store.var_builder(DType::F32, device);
        let network = ResNet::new(&resnet, vb.pp(PREFIX.trim_end_matches('.')))?;
        let channels = 6 * config.width;
        let answer = vb.pp("video");
        let weight = answer.get_with_hints((videos, channels), "weight", init::kaiming_normal_fan_in())?;
        let bias = answer.get_with_hints(videos, "bias", init::constant(0.0))?;
        let adam = Adam::new(store.trainable(), |_| ParamGroup::decay(0.0));
        let decay = Decay::Cosine { steps: config.steps as u64, floor: 0.0 };
        let schedule = Schedule { base: config.learning_rate, warmup: None, decay };
        let updater = Updater::new(Box::new(adam), schedule, None);
        Ok(Self { network, weight, bias, learner: Learner::new(store, updater), crops })
    }

    /// The parameters, the network's under [`PREFIX`].
    pub fn into_store(self) -> ParamStore {
        self.learner.into_store()
    }
}

impl GradientTask for SmallBackboneTask {
    type Error = Error;

    /// The cross-entropy of the videos' numbers.
    fn loss(&mut self, step: usize) -> Result<Loss> {
        let crops = self.crops.batch(step)?;
        let images = Tensor::cat(&[&crops.reference, &crops.test], 0)?;
        let boxes = Tensor::cat(&[&crops.reference_boxes, &crops.test_boxes], 0)?;
        let n = images.dim(0)?;
        let maps = self.network.forward_stages(&images, 3, true)?;
        let image = Tensor::arange(0f32, n as f32, images.device())?.unsqueeze(1)?;
        let rois = Tensor::cat(&[image, corners(&boxes)?], 1)?;
        let pooled = [(&maps[1], 8.0), (&maps[2], 16.0)].map(|(map, stride): (&Tensor, f64)| {
            prroi_pool(map, &rois, (1, 1), stride.recip())?.flatten_from(1).map_err(Into::into)
        });
        let pooled = pooled.into_iter().collect::<ebm_nn::Result<Vec<_>>>()?;
        let logits = linear(&Tensor::cat(&pooled, 1)?, &self.weight, Some(&self.bias))?;
        let videos: Vec<u32> = crops.samples.iter().map(|sample| sample.pair.sequence as u32).collect();
        let videos = Tensor::new([videos.as_slice(), videos.as_slice()].concat(), images.device())?;
        let log_p = log_softmax(&logits, 1)?.gather(&videos.unsqueeze(1)?, D::Minus1)?;
        Ok(log_p.mean_all()?.neg()?.into())
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }
}
