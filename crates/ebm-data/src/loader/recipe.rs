//! What a loader must know of a kind of dataset.

use std::path::Path;

use ebm_base::Key;

use crate::decode::read_image;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::planes::Planes;
use crate::quarantine::{Attempt, DefectCode, Finding, Trouble};

/// How a sample of a dataset becomes part of a batch. All else (order, threads, memory, defects) is the
/// [`Loader`](super::Loader)'s.
pub trait Recipe: Send + Sync + 'static {
    /// What samples are taken from.
    type Dataset: Send + Sync + 'static;
    /// What a batch knows of one of its samples, beside the pixels.
    type Sample: Send + 'static;
    /// What one thread uses again from sample to sample.
    type Memory: Default + Send + 'static;

    /// Checks the settings, also against the dataset.
    ///
    /// # Errors
    /// [`Error::Argument`] for a setting outside its domain.
    fn check(&self, dataset: &Self::Dataset) -> Result<()>;

    /// The number of samples in the dataset.
    fn count(dataset: &Self::Dataset) -> usize;

    /// Which samples may share a batch: those of one group. By default all may.
    fn group(&self, _dataset: &Self::Dataset, _index: usize) -> usize {
        0
    }

    /// `(height, width)` of a batch of the samples `indices`.
    fn input_size(&self, dataset: &Self::Dataset, indices: &[usize]) -> (usize, usize);

    /// Writes every number of one sample's planes, whose size is that of [`Recipe::input_size`]; the same
    /// numbers for the same `item`.
    ///
    /// # Errors
    /// [`Trouble::Defect`] with why the sample is left out; else what is the machine's failure.
    fn prepare(
        &self,
        item: Item<'_, Self::Dataset>,
        planes: &mut Planes<'_>,
        memory: &mut Self::Memory,
    ) -> Attempt<Self::Sample>;
}

/// One sample to prepare.
#[derive(Debug)]
pub struct Item<'a, D> {
    /// What it is taken from.
    pub dataset: &'a D,
    /// Its index there.
    pub index: usize,
    /// All its randomness, different in every epoch.
    pub key: Key,
    /// That of its epoch, of which `key` is the branch `index`: what several samples have in common.
    pub epoch: Key,
}

/// Decodes an image file; `sample` is what a defect calls it.
pub(crate) fn read_sample(path: &Path, sample: impl FnOnce() -> String) -> Attempt<Image> {
    read_image(path).map_err(|error| {
        let (code, detail) = match &error {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                (DefectCode::MissingFile, source.to_string())
            }
            Error::Io { .. } => return Trouble::Fatal(error),
            _ => (DefectCode::UnreadableImage, error.to_string()),
        };
        Finding::new(code, detail).trouble(path, sample())
    })
}
