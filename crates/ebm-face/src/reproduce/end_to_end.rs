//! The paper scale: a pretrained ResNet-50 is trained with each head, end to end.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device};
use ebm_data::faces::Faces;
use ebm_train::{Group, Progress};

use super::data::Data;
use super::heads::{Entry, Seen, Wanted, reproduce};
use super::{Options, Outcome};
use crate::config::ExperimentConfig;
use crate::features::FeatureTable;
use crate::network::TRUNK;
use crate::saved::{BackboneSource, TrainedHead};
use crate::training::{WholeNetwork, WholeTraining};
use crate::{BackboneConfig, Error, Result};

/// Trains all rows from the pretrained `weights` on `device` and compares them.
///
/// # Errors
/// When an image, a file or a training fails.
pub fn paper(
    config: &ExperimentConfig,
    data: &Data,
    weights: &Path,
    device: &Device,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    let trainer = Trainer { data, weights, device, options };
    reproduce(config, data, options, &mut |wanted, progress| trainer.entry(wanted, progress), progress)
}

/// Trains whole networks.
struct Trainer<'a> {
    data: &'a Data,
    weights: &'a Path,
    device: &'a Device,
    options: &'a Options,
}

impl Trainer<'_> {
    /// Trains a network and shows it the splits.
    fn entry(&self, wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<Entry> {
        let Wanted { config, method, seed, measured, .. } = *wanted;
        let (faces, weights) = (&self.data.train, Some(self.weights));
        let (device, group) = (self.device, &Group::alone());
        let training = WholeTraining { config, method, seed, faces, weights, device, group };
        let WholeNetwork { task, steps, run } = training.start()?;
        let BackboneSource::Own(form) = &run.trunk else {
            let reason = "it is trained end to end, and has no trunk of its own";
            return Err(Error::config("of the network", reason));
        };
        let store = wanted.train(task, steps, run.trunk.clone(), self.options, progress)?;
        // A residual network is fast enough on the CPU.
        let device = match form {
            BackboneConfig::Resnet(_) => &Device::Cpu,
            _ => self.device,
        };
        let trunk = form.build(&store.constants()?, TRUNK, DType::F32, device)?;
        let mut see = |faces: &Arc<Faces>| -> Result<Rc<Seen>> {
            let plain = config.input.transform(false);
            let table = FeatureTable::of_faces(&*trunk, device, plain, faces, "features", progress)?;
            Ok(Rc::new(Seen { g_x: table.features(None)?, y: table.targets().clone() }))
        };
        let validation = see(&self.data.validation)?;
        let results = match &self.data.test {
            Some(test) if measured => see(test)?,
            _ => Rc::clone(&validation),
        };
        let head = TrainedHead::new(config, method, trunk.num_features(), &store)?;
        Ok(Entry { method: method.to_owned(), seed, head, validation, results })
    }
}
