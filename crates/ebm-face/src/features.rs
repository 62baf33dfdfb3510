//! g_x of many images, or what a frozen part makes of them, computed once.

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

/// What a backbone makes of one view of a list of images, row by row, with the targets. An image that could not be
/// read has no row.
#[derive(Clone, Debug)]
pub struct FeatureTable {
    /// g_x, `(N, X)`, or the maps of the frozen part, `(N, …)`.
    features: Tensor,
    /// `(N, D)`: the targets of this view, which a mirror image may change.
    pub targets: Tensor,
    /// The place in the list of images of each row.
    indices: Vec<u32>,
}

/// A backbone that looks at images, without training.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    /// The network.
    pub trunk: &'a dyn Backbone,
    /// From an image to the network's input.
    pub input: &'a InputConfig,
    /// Whether the maps of its [frozen part](Backbone::frozen_maps) are kept, in half precision, instead of g_x.
    pub maps: bool,
    /// Where its parameters are.
    pub device: &'a Device,
}

/// Images per pass through the network.
const BATCH: usize = 8;
/// Root of the seeds that all heads share: views, and a backbone's training. The same for every run, so that
/// results compare.
pub(crate) const SHARED_SEED: u64 = 2020;

impl Viewer<'_> {
    /// Looks at `faces`: as they are in view 0, augmented in every other; `stage` is for messages.
    ///
    /// # Errors
    /// When an image file can not be read by the system or too many images are damaged.
    pub fn table(
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
            let seen = if self.maps {
                self.trunk.frozen_maps(&x)?.to_dtype(DType::F16)?
            } else {
                self.trunk.features(&x, false)?
            };
            features.push(seen.to_device(&Device::Cpu)?);
            all.push(targets(&batch, &Device::Cpu)?);
            indices.extend(batch.samples.iter().map(|sample| sample.index as u32));
            progress.advance(indices.len(), "");
        }
        progress.end();
        Ok(FeatureTable { features: Tensor::cat(&features, 0)?, targets: Tensor::cat(&all, 0)?, indices })
    }
}

impl FeatureTable {
    /// N, the number of rows.
    pub fn count(&self) -> usize {
        self.indices.len()
    }

    /// The numbers of a row: of g_x X.
    pub fn num_features(&self) -> usize {
        self.features.dims().iter().skip(1).product()
    }

    /// g_x of all rows, of maps as `trunk` goes on from them, with the targets.
    ///
    /// # Errors
    /// When memory runs out, or the maps are not this backbone's.
    pub fn seen(&self, trunk: Option<&dyn Backbone>) -> Result<Rc<Batch>> {
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

    /// What a batch takes of a row, `(1, …)`, and its target, `(1, D)`.
    pub(crate) fn row(&self, row: usize) -> Result<[Tensor; 2]> {
        Ok([self.features.narrow(0, row, 1)?, self.targets.narrow(0, row, 1)?])
    }

    /// The rows of those of the faces `all`, of which this is the table, that are among `part`, by name.
    ///
    /// # Errors
    /// When memory runs out.
    pub(crate) fn of(&self, all: &Faces, part: &Faces) -> Result<Self> {
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
