//! Training of a network end to end, from images.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_nn::params::ParamStore;
use ebm_train::Group;

use super::{FaceTask, StreamSource};
use crate::config::ExperimentConfig;
use crate::network::{Head, Network, TRUNK};
use crate::{Result, preload_backbone};

/// Builds the training of `method` on `faces`, end to end, in the processes of `group`. Returns it with the number of
/// updates. The backbone starts from the pretrained `weights`, or from random ones. All randomness comes from `key`.
///
/// # Errors
/// When there is no such method, the weights are of another network, or a batch has no share for each process.
pub(crate) fn end_to_end_task(
    config: &ExperimentConfig,
    method: &str,
    key: Key,
    faces: &Arc<Faces>,
    weights: Option<&Path>,
    device: &Device,
    group: &Group,
) -> Result<(FaceTask<StreamSource>, usize)> {
    let store = ParamStore::new(key.split("init"));
    if let Some(weights) = weights {
        preload_backbone(&store, TRUNK, &config.trunk, weights, device)?;
    }
    let trunk = config.trunk.build(&store, TRUNK, DType::F32, device)?;
    let targets = faces.faces.iter().flat_map(|face| &face.target).map(|&number| f64::from(number));
    Head::preload(config, method, &store, targets)?;
    let head = Head::of(config, method, trunk.num_features(), &store, device)?;
    let training = config.training_of(method);
    let loader = FaceLoaderConfig::shuffled(config.input.transform(true), training.batch_size);
    let loader = match group.world() {
        1 => loader,
        _ => loader.part(group.share_of(training.batch_size)?),
    };
    let loader = FaceLoader::new(Arc::clone(faces), loader, key.split("data"))?;
    let source = StreamSource::new(loader, faces.faces.len(), device.clone());
    let network = Network::new(config, Some(trunk), head)?;
    let task = FaceTask::new(network, store, source, training, key.split("train")).over(group);
    Ok((task, training.steps(faces.faces.len())))
}
