//! A network that is trained end to end from images.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::Group;

use super::{Batch, FaceTask, StreamSource, images, targets};
use crate::config::ExperimentConfig;
use crate::network::{Head, Network, TRUNK};
use crate::saved::{BackboneSource, RunConfig};
use crate::{BackboneConfig, ResNetFile, Result, preload_backbone, preload_resnet};

/// What is trained, on what and where.
pub struct WholeTraining<'a> {
    /// The experiment.
    pub config: &'a ExperimentConfig,
    /// The key of a baseline, or of the energy model.
    pub method: &'a str,
    /// Root of the initial values, the order and the samples.
    pub seed: u64,
    /// The images with their targets.
    pub faces: &'a Arc<Faces>,
    /// The backbone's pretrained weights; without them it begins with drawn ones.
    pub weights: Option<&'a Path>,
    /// Where it is trained.
    pub device: &'a Device,
    /// The processes that train it.
    pub group: &'a Group,
}

/// A network that is about to be trained.
pub struct WholeNetwork {
    /// Its training.
    pub task: FaceTask<StreamSource>,
    /// Updates.
    pub steps: usize,
    /// What its run says of it.
    pub run: RunConfig,
}

impl WholeTraining<'_> {
    /// Builds the network and opens the images.
    ///
    /// # Errors
    /// When there is no such method, the weights are of another network, or a batch has no share for each
    /// process.
    pub fn start(&self) -> Result<WholeNetwork> {
        let Self { config, method, seed, faces, device, group, .. } = *self;
        let key = Key::new(seed).split(method);
        let store = ParamStore::new(key.split("init"));
        let form = self.preload(&store)?;
        let trunk = form.build(&store, TRUNK, DType::F32, device)?;
        let targets = faces.faces.iter().flat_map(|face| &face.target).map(|&number| f64::from(number));
        Head::preload(config, method, &store, targets)?;
        let (head, training) = Head::of(config, method, trunk.num_features(), &store, device)?;
        let loader = FaceLoaderConfig::shuffled(config.input.transform(true), training.batch_size);
        let loader = match group.world() {
            1 => loader,
            _ => loader.part(group.share_of(training.batch_size).map_err(ebm_train::Error::from)?),
        };
        let loader = FaceLoader::new(Arc::clone(faces), loader, key.split("data"))?;
        let source = StreamSource::new(loader, faces.faces.len(), device.clone());
        let network = Network { trunk: Some(trunk), head };
        let task = FaceTask::new(network, store, source, training, key.split("train")).over(group);
        let (method, trunk, experiment) = (method.to_owned(), BackboneSource::Own(form), config.clone());
        let run = RunConfig { method, seed, trunk, experiment };
        Ok(WholeNetwork { task, steps: training.steps(faces.faces.len()), run })
    }

    /// Puts the backbone's weights into `store`; returns its sizes.
    fn preload(&self, store: &ParamStore) -> Result<BackboneConfig> {
        Ok(match (&self.config.trunk, self.weights) {
            (form, None) => form.clone(),
            (BackboneConfig::Resnet(_), Some(weights)) => {
                let file = ResNetFile::default();
                BackboneConfig::Resnet(preload_resnet(store, TRUNK, weights, file, self.device)?)
            }
            (other, Some(weights)) => {
                preload_backbone(store, TRUNK, other, weights, self.device)?;
                other.clone()
            }
        })
    }
}

/// All images of `faces` with their targets, as they are, in batches on `device`.
///
/// # Errors
/// When too many images are damaged.
pub fn whole_batches(config: &ExperimentConfig, faces: &Arc<Faces>, device: &Device) -> Result<Vec<Batch>> {
    /// Images of a batch.
    const BATCH: usize = 32;
    let loader = FaceLoaderConfig::in_order(config.input.transform(false), BATCH);
    let batches = FaceLoader::new(Arc::clone(faces), loader, Key::new(0))?.epoch(0)?;
    batches
        .map(|batch| {
            let batch = batch?;
            Ok(Batch { x: images(&batch, device)?, y: targets(&batch, device)? })
        })
        .collect()
}
