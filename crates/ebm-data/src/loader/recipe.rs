//! Interface between a loader and a kind of dataset.

use std::path::Path;

use ebm_base::Key;

use crate::decode::read_image;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::planes::Planes;
use crate::quarantine::{DefectCode, Finding, SampleError, SampleResult};

/// Conversion of the samples of a dataset to parts of a batch. [`Loader`](super::Loader) does everything else:
/// order, threads, memory, defects.
pub trait Recipe: Send + Sync + 'static {
    /// Dataset that holds the samples.
    type Dataset: Send + Sync + 'static;
    /// Annotation of a sample in a batch, beside the pixels.
    type Sample: Send + 'static;
    /// Memory that one thread reuses for all samples.
    type Memory: Default + Send + 'static;

    /// Checks the settings, alone and against the dataset.
    ///
    /// # Errors
    /// [`Error::Argument`] for a setting outside its domain.
    fn check(&self, dataset: &Self::Dataset) -> Result<()>;

    /// Returns the number of samples in the dataset.
    fn count(dataset: &Self::Dataset) -> usize;

    /// Returns the group of a sample. Only samples of one group share a batch; by default there is one group.
    fn group(&self, _dataset: &Self::Dataset, _index: usize) -> usize {
        0
    }

    /// Returns `(height, width)` of a batch of the samples `indices`.
    fn input_size(&self, dataset: &Self::Dataset, indices: &[usize]) -> (usize, usize);

    /// Writes every number of one sample's planes, which have the size of [`Recipe::input_size`]. The same `item`
    /// gives the same numbers.
    ///
    /// # Errors
    /// [`SampleError::Defect`] with the reason why the sample is left out; [`SampleError::Fatal`] for a failure of the
    /// machine.
    fn prepare(
        &self,
        item: Item<'_, Self::Dataset>,
        planes: &mut Planes<'_>,
        memory: &mut Self::Memory,
    ) -> SampleResult<Self::Sample>;
}

/// Sample to prepare.
#[derive(Debug)]
pub struct Item<'a, D> {
    /// Dataset of the sample.
    pub dataset: &'a D,
    /// Index of the sample in the dataset.
    pub index: usize,
    /// Key of the sample's randomness, different in every epoch.
    pub key: Key,
    /// Key of the epoch, for randomness that several samples share; `key` is its branch `index`.
    pub epoch: Key,
}

/// Decodes an image file; a defect calls it `sample`.
pub(crate) fn read_sample(path: &Path, sample: impl FnOnce() -> String) -> SampleResult<Image> {
    read_image(path).map_err(|error| {
        let (code, detail) = match &error {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                (DefectCode::MissingFile, source.to_string())
            }
            Error::Io { .. } => return SampleError::Fatal(error),
            _ => (DefectCode::UnreadableImage, error.to_string()),
        };
        Finding::new(code, detail).into_sample_error(path, sample())
    })
}
