//! g_x of many images, or what a frozen part makes of them, computed once and kept on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_data::faces::Faces;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig, FaceTransform};
use ebm_nn::import;
use ebm_seed::Key;
use ebm_train::Progress;
use sha2::{Digest, Sha256};

use crate::training::{images, targets};
use crate::{Backbone, Result};

/// What a backbone makes of one view of a list of images, row by row, with the targets. An image that could not be
/// read has no row.
#[derive(Clone, Debug)]
pub struct FeatureTable {
    /// g_x, `(N, X)`, or the maps of the frozen part, `(N, …)`.
    features: Tensor,
    /// `(N, D)`: the targets of this view, which a mirror image may change.
    targets: Tensor,
    /// The place in the list of images of each row.
    indices: Vec<u32>,
}

/// What of a backbone a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// g_x, in single precision.
    Features,
    /// The maps of its [frozen part](Backbone::frozen_maps), in half precision.
    FrozenMaps,
}

impl FeatureTable {
    /// N, the number of rows.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The numbers of a row: of g_x X.
    pub fn num_features(&self) -> usize {
        self.features.dims().iter().skip(1).product()
    }

    /// The place in the list of images of each row.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// g_x of all rows, `(N, X)`, of maps as `trunk` goes on from them.
    ///
    /// # Errors
    /// When memory runs out, or the maps are not this backbone's.
    pub fn features(&self, trunk: Option<&dyn Backbone>) -> Result<Tensor> {
        let Some(trunk) = trunk else { return Ok(self.features.to_dtype(DType::F32)?) };
        let mut found = Vec::new();
        for first in (0..self.len()).step_by(BATCH) {
            let maps = self.features.narrow(0, first, BATCH.min(self.len() - first))?;
            found.push(trunk.features_of_maps(&maps.to_dtype(DType::F32)?, false)?);
        }
        Ok(Tensor::cat(&found, 0)?)
    }

    /// The targets, `(N, D)`.
    pub fn targets(&self) -> &Tensor {
        &self.targets
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

    /// Runs `trunk`, whose parameters are on `device`, over all faces as they are.
    pub(crate) fn of_faces(
        trunk: &dyn Backbone,
        device: &Device,
        transform: FaceTransform,
        faces: &Arc<Faces>,
        stage: &str,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let loader = FaceLoaderConfig::in_order(transform, 8);
        let loader = FaceLoader::new(Arc::clone(faces), loader, Key::new(0))?;
        Self::compute(trunk, Depth::Features, device, &loader, stage, faces.faces.len(), progress)
    }

    /// Runs `trunk`, whose parameters are on `device`, over all images of the loader.
    fn compute(
        trunk: &dyn Backbone,
        depth: Depth,
        device: &Device,
        loader: &FaceLoader,
        stage: &str,
        total: usize,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let (mut features, mut all, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        progress.begin(stage, total);
        for batch in loader.epoch(0)? {
            let batch = batch?;
            let x = images(&batch, device)?;
            features.push(match depth {
                Depth::Features => trunk.features(&x, false)?.to_device(&Device::Cpu)?,
                Depth::FrozenMaps => trunk.frozen_maps(&x)?.to_dtype(DType::F16)?.to_device(&Device::Cpu)?,
            });
            all.push(targets(&batch, &Device::Cpu)?);
            indices.extend(batch.samples.iter().map(|sample| sample.index as u32));
            progress.advance(indices.len(), "");
        }
        progress.end();
        Ok(Self { features: Tensor::cat(&features, 0)?, targets: Tensor::cat(&all, 0)?, indices })
    }

    fn to_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let indices = Tensor::from_slice(&self.indices, self.len(), &Device::Cpu)?;
        let (features, targets) = (self.features.clone(), self.targets.clone());
        let tensors = [("features", features), ("targets", targets), ("indices", indices)];
        Ok(tensors.map(|(name, tensor)| (name.to_owned(), tensor)).into())
    }

    /// The table of a file that [`to_tensors`](Self::to_tensors) filled; none for any other.
    fn from_tensors(tensors: &BTreeMap<String, Tensor>) -> Option<Self> {
        let of = |name: &str, dtype: DType| tensors.get(name).filter(|tensor| tensor.dtype() == dtype);
        let features = of("features", DType::F32).or_else(|| of("features", DType::F16))?.clone();
        let targets = of("targets", DType::F32).filter(|targets| targets.rank() == 2)?.clone();
        let indices = of("indices", DType::U32)?.to_vec1::<u32>().ok()?;
        let rows = |tensor: &Tensor| tensor.dims().first() == Some(&indices.len());
        let whole = rows(&features) && features.rank() > 1 && rows(&targets) && !indices.is_empty();
        whole.then_some(Self { features, targets, indices })
    }

    /// What the file's content is checked against.
    fn checksum(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for tensor in [&self.features, &self.targets] {
            hash.update((tensor.elem_count() as u64).to_le_bytes());
            tensor.write_bytes(&mut hash)?;
        }
        self.indices.iter().for_each(|index| hash.update(index.to_le_bytes()));
        Ok(hex(hash))
    }
}

/// Feature tables on disk, each under the hash of all that it depends on: the backbone's weights, every
/// image's bytes, its target, the transform and the key of its augmentation. A file that is damaged is
/// computed again.
pub struct FeatureCache<'a> {
    /// Where the files are.
    pub dir: PathBuf,
    /// The network.
    pub trunk: &'a dyn Backbone,
    /// What of it is kept.
    pub depth: Depth,
    /// A hash of the network's weights and form, and of what of it is kept.
    pub trunk_digest: String,
}

/// Images per pass through the network.
const BATCH: usize = 8;

impl FeatureCache<'_> {
    /// The features of `faces` under `transform`, whose augmentation draws from `key`; `name` is for
    /// messages.
    ///
    /// # Errors
    /// When an image file can not be read by the system or too many images are damaged, or the cache can not
    /// be written.
    pub fn table(
        &self,
        name: &str,
        faces: &Arc<Faces>,
        transform: &FaceTransform,
        key: Key,
        progress: &mut dyn Progress,
    ) -> Result<FeatureTable> {
        let digest = self.digest(faces, transform, key)?;
        let path = self.dir.join(format!("{}.safetensors", &digest[..32]));
        if path.exists() {
            match read(&path, &digest) {
                Some(table) => return Ok(table),
                None => progress.message(&format!("{} is damaged and is computed again", path.display())),
            }
        }
        let loader =
            FaceLoader::new(Arc::clone(faces), FaceLoaderConfig::in_order(transform.clone(), BATCH), key)?;
        let (trunk, total) = (self.trunk, faces.faces.len());
        let table = FeatureTable::compute(trunk, self.depth, &Device::Cpu, &loader, name, total, progress)?;
        ebm_data::files::create_dir(&self.dir)?;
        let metadata =
            BTreeMap::from([("inputs".to_owned(), digest), ("content".to_owned(), table.checksum()?)]);
        import::save_safetensors_with(&path, &table.to_tensors()?, &metadata)?;
        Ok(table)
    }

    fn digest(&self, faces: &Faces, transform: &FaceTransform, key: Key) -> Result<String> {
        let mut hash = Sha256::new();
        hash.update(format!("feature table 1\n{}\n{transform:?}\n{key:?}\n", self.trunk_digest));
        for face in &faces.faces {
            hash.update(Sha256::digest(&face.pixels.bytes()?));
            face.target.iter().for_each(|number| hash.update(number.to_le_bytes()));
        }
        Ok(hex(hash))
    }
}

/// The table at `path` if it is whole and of these inputs.
fn read(path: &Path, digest: &str) -> Option<FeatureTable> {
    let metadata = import::metadata(path).ok()?;
    if metadata.get("inputs").map(String::as_str) != Some(digest) {
        return None;
    }
    let table = FeatureTable::from_tensors(&import::load_safetensors(path, &Device::Cpu).ok()?)?;
    (metadata.get("content") == table.checksum().ok().as_ref()).then_some(table)
}

/// Lower-case hexadecimal.
fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
