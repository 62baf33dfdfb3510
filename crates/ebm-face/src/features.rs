//! Features of many images, computed once.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_train::Progress;

use crate::config::InputConfig;
use crate::training::{Batch, images, targets};
use crate::{Backbone, Result};

/// Features of one view of a list of images, row by row, with the targets. An image that could not be read has no row.
#[derive(Clone, Debug)]
pub struct FeatureTable {
    /// g_x `(N, X)`, or the maps of the frozen part of the backbone `(N, …)`.
    features: Tensor,
    /// Targets of this view `(N, D)`. Mirroring an image may change its target.
    pub targets: Tensor,
    /// Index of each row's image in the list.
    indices: Vec<u32>,
}

/// A backbone that computes features of images, without training.
#[derive(Clone, Copy, Debug)]
pub struct FeatureExtractor<'a> {
    /// Network.
    pub trunk: &'a dyn Backbone,
    /// Preprocessing of the images.
    pub input: &'a InputConfig,
    /// Whether to keep the maps of the [frozen part](Backbone::frozen_maps), in half precision, instead of g_x.
    pub maps: bool,
    /// Device of the parameters.
    pub device: &'a Device,
}

/// Images per pass through the network.
const BATCH: usize = 8;
/// Seed of views and of a backbone's training, which all heads share. It is the same for every run.
pub(crate) const SHARED_SEED: u64 = 2020;

impl FeatureExtractor<'_> {
    /// Computes the features of `faces` in the view number `view`. View 0 shows the images as they are, and every other
    /// view is augmented. `stage` is for messages.
    ///
    /// # Errors
    /// When the system cannot read an image file, or too many images are damaged.
    pub fn extract(
        &self,
        stage: &str,
        faces: &Arc<Faces>,
        view: usize,
        progress: &mut dyn Progress,
    ) -> Result<FeatureTable> {
        let (mut features, mut all, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        let config = FaceLoaderConfig::in_order(self.input.transform(view > 0), BATCH);
        let key = Key::new(SHARED_SEED).split("view").index(view as u64);
        progress.begin(stage, faces.faces.len());
        for batch in FaceLoader::new(Arc::clone(faces), config, key)?.epoch(0)? {
            let batch = batch?;
            let x = images(&batch, self.device)?;
            let maps = if self.maps {
                self.trunk.frozen_maps(&x)?.to_dtype(DType::F16)?
            } else {
                self.trunk.features(&x, false)?
            };
            features.push(maps.to_device(&Device::Cpu)?);
            all.push(targets(&batch, &Device::Cpu)?);
            indices.extend(batch.samples.iter().map(|sample| sample.index as u32));
            progress.advance(indices.len(), "");
        }
        progress.end();
        Ok(FeatureTable { features: Tensor::cat(&features, 0)?, targets: Tensor::cat(&all, 0)?, indices })
    }
}

impl FeatureTable {
    /// Returns N, the number of rows.
    pub fn count(&self) -> usize {
        self.indices.len()
    }

    /// Returns the number of values in a row: X if the table holds g_x.
    pub fn num_features(&self) -> usize {
        self.features.dims().iter().skip(1).product()
    }

    /// Returns g_x of all rows with the targets. If the table holds maps, `trunk` computes g_x from them.
    ///
    /// # Errors
    /// When memory runs out, or the maps are from another backbone.
    pub fn batch_of_all(&self, trunk: Option<&dyn Backbone>) -> Result<Rc<Batch>> {
        let y = self.targets.clone();
        let Some(trunk) = trunk else {
            return Ok(Rc::new(Batch { x: self.features.to_dtype(DType::F32)?, y }));
        };
        let mut found = Vec::new();
        for first in (0..self.count()).step_by(BATCH) {
            let maps = self.features.narrow(0, first, BATCH.min(self.count() - first))?;
            found.push(trunk.features_of_maps(&maps.to_dtype(DType::F32)?, false)?);
        }
        Ok(Rc::new(Batch { x: Tensor::cat(&found, 0)?, y }))
    }

    /// Returns the features `(1, …)` and the target `(1, D)` of the row `row`.
    pub(crate) fn row(&self, row: usize) -> Result<[Tensor; 2]> {
        Ok([self.features.narrow(0, row, 1)?, self.targets.narrow(0, row, 1)?])
    }

    /// Returns the rows of the faces in `part`, found by name. `all` are the faces of this table.
    ///
    /// # Errors
    /// When memory runs out.
    pub(crate) fn select(&self, all: &Faces, part: &Faces) -> Result<Self> {
        let name = |index: u32| Some(all.faces.get(index as usize)?.name.as_str());
        let rows: BTreeMap<&str, u32> =
            self.indices.iter().zip(0u32..).filter_map(|(&index, row)| Some((name(index)?, row))).collect();
        let row = |name: &str| rows.get(name).copied();
        let found = part.faces.iter().zip(0u32..).filter_map(|(face, index)| Some((row(&face.name)?, index)));
        let (rows, indices): (Vec<u32>, Vec<u32>) = found.unzip();
        let rows = Tensor::from_slice(&rows, rows.len(), &Device::Cpu)?;
        let chosen = |tensor: &Tensor| tensor.index_select(&rows, 0);
        Ok(Self { features: chosen(&self.features)?, targets: chosen(&self.targets)?, indices })
    }
}
