//! Networks built from weight files, and weight files written from networks.

mod compatibility;
mod convert;
mod family;
mod file;
mod metadata;

use std::{collections::BTreeSet, path::Path};

use candle_core::{DType, Device};
use ebm_nn::params::ParamStore;

pub use convert::{Conversion, ConvertOptions, convert};
pub use family::Family;
pub use file::WeightFile;
pub use metadata::{
    BRANCH, DETECTION, FASTEST_DET, REFINER, branch_metadata, check_branch, check_detector, classes,
    detector_metadata, model_metadata, stated_configuration,
};

use crate::body::{BodySpec, is_of_body};
use crate::config::DetectorConfig;
use crate::faster_rcnn::FasterRcnn;
use crate::{Error, Result};

/// Weights for the body of a new detector: a ResNet with torchvision's names, with or without the classifier `fc`,
/// EfficientNet-Lite0 as published, or a fixed-point file of [`ebm_nn::import`].
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// Path of the weights file.
    pub path: &'a Path,
    /// Whether the names in the file may differ from the body's, as long as they share some.
    pub partial: bool,
}

impl Body<'_> {
    /// Creates a detector with the parameters of `store`, with the file's parameters of the body frozen. Returns it with
    /// the names of the body's other parameters, which are drawn and trained; there are none unless
    /// [`partial`](Self::partial) is set.
    ///
    /// # Errors
    /// [`Error::Weights`] with the names and shapes that differ; when the file cannot be read.
    pub fn detector(
        self,
        config: &DetectorConfig,
        store: &ParamStore,
        device: &Device,
    ) -> Result<(FasterRcnn, Vec<String>)> {
        let refuse = |reason: String| Error::weights(self.path, reason);
        let tensors = BodySpec::of_detector(&config.backbone)?.read(self.path, device)?;
        let names: BTreeSet<String> = tensors.keys().cloned().collect();
        store.preload(tensors);
        store.freeze(move |name| names.contains(name));
        let detector = FasterRcnn::new(config, store.var_builder(DType::F32, device))
            .map_err(|error| refuse(format!("its shapes are not those of the detector's body: {error}")))?;
        let mut report = store.preload_report();
        report.missing.retain(|name| is_of_body(name));
        if report.loaded.is_empty() || !(self.partial || report.is_exact()) {
            return Err(refuse(format!("its names are not those of the detector's body: {report}")));
        }
        Ok((detector, report.missing))
    }
}
