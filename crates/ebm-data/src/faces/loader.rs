//! Batches of faces, (N, 3, size, size), with the N targets.
//!
//! ```
//! # use std::sync::Arc;
//! use ebm_data::faces::loader::{Augmentation, FaceLoader, FaceLoaderConfig, FaceTransform};
//! use ebm_data::faces::{Face, Faces, Pixels};
//! use ebm_data::{Image, transform::Normalise};
//!
//! let pixels = Pixels::Memory(Arc::new(Image::filled(80, 60, [9, 99, 200])?));
//! let face = Face { name: "0".to_owned(), pixels, target: vec![10., -20., 30.] };
//! let faces = Arc::new(Faces { faces: vec![face], ..Faces::default() });
//!
//! let augmentation = Some(Augmentation::published(vec![-1., 1., -1.]));
//! let transform = FaceTransform { size: 64, normalise: Normalise::IMAGENET, augmentation };
//! let loader = FaceLoader::new(faces, FaceLoaderConfig::shuffled(transform, 32), ebm_base::Key::new(0))?;
//! for batch in loader.epoch(0)? {
//!     let batch = batch?;
//!     assert_eq!(batch.shape, (1, 3, 64, 64));
//!     let sign = if batch.samples[0].flipped { -1. } else { 1. };
//!     assert_eq!(batch.samples[0].target, [10. * sign, -20., 30. * sign]);
//! }
//! # Ok::<(), ebm_data::Error>(())
//! ```

use std::path::Path;

use super::region::crop;
use super::{Face, Faces, Pixels};
use crate::error::{Error, Result};
use crate::loader::recipe::read_sample;
use crate::loader::{Batch, Item, Loader, LoaderConfig, Planes, Recipe};
use crate::quarantine::{DefectCode, Finding, SampleResult};
use crate::transform::TransformMemory;

pub use super::augment::{Augmentation, FaceTransform, Placement};

/// Loader of batches of faces. All faces have one size, without padding between them.
pub type FaceLoader = Loader<FaceTransform>;

/// Settings of a [`FaceLoader`].
pub type FaceLoaderConfig = LoaderConfig<FaceTransform>;

/// Batch of the faces of one step.
pub type FaceBatch = Batch<FaceSample>;

/// Annotation of one face of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceSample {
    /// Index of the face in [`Faces::faces`].
    pub index: usize,
    /// Target of D numbers, with the signs of the mirror image if the image was mirrored.
    pub target: Vec<f32>,
    /// Whether the image was mirrored left to right.
    pub flipped: bool,
}

impl Recipe for FaceTransform {
    type Dataset = Faces;
    type Sample = FaceSample;
    type Memory = TransformMemory;

    /// Checks the settings, and that all targets are finite and of equal length. Flip signs, if any, fix the length.
    fn check(&self, dataset: &Faces) -> Result<()> {
        self.check()?;
        let signs = self.augmentation.as_ref().map(|augmentation| augmentation.flip_signs.len());
        let Some(expected) = signs.or(dataset.faces.first().map(|face| face.target.len())) else {
            return Ok(());
        };
        for Face { name, target, .. } in &dataset.faces {
            let detail = if target.len() != expected {
                let from = if signs.is_some() { "flip_signs" } else { "the first face" };
                format!("face {name} has {} numbers, {from} {expected}", target.len())
            } else if target.iter().any(|number| !number.is_finite()) {
                format!("face {name} has {target:?}: leave it out")
            } else {
                continue;
            };
            return Err(Error::Argument { name: "target", detail });
        }
        Ok(())
    }

    fn count(dataset: &Faces) -> usize {
        dataset.faces.len()
    }

    fn input_size(&self, _: &Faces, _: &[usize]) -> (usize, usize) {
        (self.size, self.size)
    }

    fn prepare(
        &self,
        Item { dataset, index, key, .. }: Item<'_, Faces>,
        planes: &mut Planes<'_>,
        memory: &mut TransformMemory,
    ) -> SampleResult<FaceSample> {
        let Face { name, pixels, target } = &dataset.faces[index];
        let sample = || format!("face {name}");
        let drawn =
            self.augmentation.as_ref().map(|augmentation| augmentation.draw(self.size, &mut key.rng()));
        match pixels {
            Pixels::File(path) => self.write(&read_sample(path, sample)?, drawn, planes, memory),
            Pixels::Region { path, region } => {
                let part = crop(&read_sample(path, sample)?, *region);
                let part = part.map_err(|finding| finding.into_sample_error(path, sample()))?;
                self.write(&part, drawn, planes, memory);
            }
            Pixels::Memory(image) => {
                image.check().map_err(|error| {
                    let finding = Finding::new(DefectCode::UnreadableImage, error.to_string());
                    finding.into_sample_error(Path::new(name), sample())
                })?;
                self.write(image, drawn, planes, memory);
            }
        }
        let flipped = drawn.is_some_and(|drawn| drawn.flipped);
        let target = match &self.augmentation {
            Some(augmentation) => augmentation.target(target, flipped),
            None => target.clone(),
        };
        Ok(FaceSample { index, target, flipped })
    }
}
