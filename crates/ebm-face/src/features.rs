//! g_x of many images, computed once and kept on disk.

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
use crate::{Backbone, Error, Result};

/// Features and targets of one view of a list of images, row by row. An image that could not be read has no
/// row.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureTable {
    /// X, the length of g_x.
    num_features: usize,
    /// D.
    dim: usize,
    /// `(N, X)`.
    features: Vec<f32>,
    /// `(N, D)`: the targets of this view, which a mirror image may change.
    targets: Vec<f32>,
    /// The place in the list of images of each row.
    indices: Vec<u32>,
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

    /// X, the length of g_x.
    pub fn num_features(&self) -> usize {
        self.num_features
    }

    /// The place in the list of images of each row.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// g_x of all rows, `(N, X)`.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn features(&self) -> Result<Tensor> {
        Ok(Tensor::from_slice(&self.features, (self.len(), self.num_features), &Device::Cpu)?)
    }

    /// The targets, `(N, D)`.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn targets(&self) -> Result<Tensor> {
        Ok(Tensor::from_slice(&self.targets, (self.len(), self.dim), &Device::Cpu)?)
    }

    /// Appends g_x and the target of a row.
    pub(crate) fn append(&self, row: usize, x: &mut Vec<f32>, y: &mut Vec<f32>) {
        x.extend_from_slice(&self.features[row * self.num_features..][..self.num_features]);
        y.extend_from_slice(&self.targets[row * self.dim..][..self.dim]);
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
        Self::compute(trunk, device, &loader, stage, faces.faces.len(), progress)
    }

    /// Runs `trunk`, whose parameters are on `device`, over all images of the loader, `total` in number.
    fn compute(
        trunk: &dyn Backbone,
        device: &Device,
        loader: &FaceLoader,
        stage: &str,
        total: usize,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let mut table = Self { num_features: 0, dim: 0, features: vec![], targets: vec![], indices: vec![] };
        progress.begin(stage, total);
        for batch in loader.epoch(0)? {
            let batch = batch?;
            let g_x = trunk.features(&images(&batch, device)?, false)?;
            let y = targets(&batch, &Device::Cpu)?;
            (table.num_features, table.dim) = (g_x.dim(1)?, y.dim(1)?);
            table.features.extend(g_x.flatten_all()?.to_vec1::<f32>()?);
            table.targets.extend(y.flatten_all()?.to_vec1::<f32>()?);
            table.indices.extend(batch.samples.iter().map(|sample| sample.index as u32));
            progress.advance(table.len(), "");
        }
        progress.end();
        Ok(table)
    }

    fn to_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let indices = Tensor::from_slice(&self.indices, self.len(), &Device::Cpu)?;
        let tensors = [("features", self.features()?), ("targets", self.targets()?), ("indices", indices)];
        Ok(tensors.map(|(name, tensor)| (name.to_owned(), tensor)).into())
    }

    /// The table of a file that [`to_tensors`](Self::to_tensors) filled; none for any other.
    fn from_tensors(tensors: &BTreeMap<String, Tensor>) -> Option<Self> {
        let of = |name: &str, dtype: DType| tensors.get(name).filter(|tensor| tensor.dtype() == dtype);
        let matrix = |name: &str| {
            let tensor = of(name, DType::F32)?;
            let (rows, columns) = tensor.dims2().ok()?;
            Some((rows, columns, tensor.flatten_all().ok()?.to_vec1::<f32>().ok()?))
        };
        let (rows, num_features, features) = matrix("features")?;
        let (target_rows, dim, targets) = matrix("targets")?;
        let indices = of("indices", DType::U32)?.to_vec1::<u32>().ok()?;
        let whole = rows == target_rows && rows == indices.len() && rows > 0;
        whole.then_some(Self { num_features, dim, features, targets, indices })
    }

    /// What the file's content is checked against.
    fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        for numbers in [&self.features, &self.targets] {
            hash.update((numbers.len() as u64).to_le_bytes());
            numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
        }
        self.indices.iter().for_each(|index| hash.update(index.to_le_bytes()));
        hex(hash)
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
    /// A hash of the network's weights and form.
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
        let table =
            FeatureTable::compute(self.trunk, &Device::Cpu, &loader, name, faces.faces.len(), progress)?;
        std::fs::create_dir_all(&self.dir).map_err(|source| Error::Io {
            action: "create",
            path: self.dir.clone(),
            source,
        })?;
        let metadata =
            BTreeMap::from([("inputs".to_owned(), digest), ("content".to_owned(), table.checksum())]);
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
    (metadata.get("content") == Some(&table.checksum())).then_some(table)
}

/// Lower-case hexadecimal.
fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
