//! Loading of images of a COCO dataset with their boxes.

use super::recipe::{Item, Recipe, read_sample};
use crate::coco::CocoDataset;
use crate::draw::unit;
use crate::error::{Error, Result};
use crate::planes::Planes;
use crate::quarantine::{DefectCode, Finding, SampleResult};
use crate::transform::{Transform, TransformMemory, flip_boxes, padded_size, resize_boxes};

/// Conversion of an image of a COCO dataset to a detector's input. A batch is padded to the largest of its images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectionRecipe {
    /// Conversion of pixels to the network's input.
    pub transform: Transform,
    /// `true` to put images that are taller than wide into batches of their own, which saves padding.
    pub group_by_aspect: bool,
    /// Probability of mirroring an image left to right.
    pub flip_probability: f64,
}

/// Annotation of one image of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Id of the image in the annotation file.
    pub image_id: u64,
    /// Index of the image in [`CocoDataset::images`](crate::coco::CocoDataset::images).
    pub index: usize,
    /// Rows of the resized image, without padding.
    pub height: usize,
    /// Columns of the resized image, without padding.
    pub width: usize,
    /// Size `(height, width)` of the image file.
    pub original: (usize, usize),
    /// Boxes `(x0, y0, x1, y1)` in pixels of the resized (and mirrored) image, half-open, without crowd regions.
    pub boxes: Vec<[f32; 4]>,
    /// Label of each box, from 1.
    pub labels: Vec<usize>,
    /// `true` if the image was mirrored left to right.
    pub flipped: bool,
}

impl Recipe for DetectionRecipe {
    type Dataset = CocoDataset;
    type Sample = Sample;
    type Memory = TransformMemory;

    fn check(&self, _: &CocoDataset) -> Result<()> {
        self.transform.check()?;
        check_range("flip_probability", self.flip_probability, 1.)
    }

    fn count(dataset: &CocoDataset) -> usize {
        dataset.images.len()
    }

    fn group(&self, dataset: &CocoDataset, index: usize) -> usize {
        let portrait = dataset.images.get(index).is_some_and(|image| image.height > image.width);
        usize::from(self.group_by_aspect && portrait)
    }

    /// Returns the size for the annotated sizes of the images.
    fn input_size(&self, dataset: &CocoDataset, indices: &[usize]) -> (usize, usize) {
        let images = indices.iter().filter_map(|&index| dataset.images.get(index));
        padded_size(images.map(|image| self.transform.output_size(image.height, image.width)))
    }

    fn prepare(
        &self,
        Item { dataset, index, key, .. }: Item<'_, CocoDataset>,
        planes: &mut Planes<'_>,
        memory: &mut TransformMemory,
    ) -> SampleResult<Sample> {
        let image = &dataset.images[index];
        let name = || format!("image {}", image.id);
        let decoded = read_sample(&image.path, name)?;
        if (decoded.width, decoded.height) != (image.width, image.height) {
            let found = format!("{}x{}", decoded.width, decoded.height);
            let detail = format!("{found}, annotated {}x{}", image.width, image.height);
            return Err(Finding::new(DefectCode::SizeMismatch, detail).into_sample_error(&image.path, name()));
        }

        let flipped = unit(&mut key.rng()) < self.flip_probability;
        let original = (image.height, image.width);
        let (boxes, labels): (Vec<_>, Vec<_>) = image
            .objects
            .iter()
            .filter(|object| !object.iscrowd)
            .map(|object| (object.bbox, object.label))
            .unzip();
        let (height, width) = self.transform.write(&decoded, flipped, planes, memory);
        let boxes = resize_boxes(&boxes, original, (height, width));
        let boxes = if flipped { flip_boxes(&boxes, width) } else { boxes };
        Ok(Sample { image_id: image.id, index, height, width, original, boxes, labels, flipped })
    }
}

/// Refuses a number outside 0 to `most`.
pub(crate) fn check_range(name: &'static str, number: f64, most: f64) -> Result<()> {
    if (0. ..=most).contains(&number) {
        return Ok(());
    }
    Err(Error::Argument { name, detail: format!("{number} is not in 0 to {most:?}") })
}
