//! The annotated images that are trained on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::detection_folder::{DetectionFolder, Split};
use ebm_data::quarantine::Tolerance;

use super::detector::at_least_one;

/// Which images, and how many of them may be defective.
#[derive(Args)]
pub struct DataArgs {
    /// A folder of annotated images in COCO's, Pascal VOC's or YOLO's form, which is recognised; of its
    /// splits, train is trained on and valid chooses a step length.
    #[arg(long, value_name = "FOLDER", required_unless_present = "annotations")]
    data: Option<PathBuf>,
    /// COCO annotation file. It and --images may be given several times, in pairs: all are trained on.
    #[arg(long, conflicts_with = "data", requires = "images")]
    annotations: Vec<PathBuf>,
    /// Its images.
    #[arg(long, requires = "annotations")]
    images: Vec<PathBuf>,
    /// Only the first so many images, by id.
    #[arg(long, value_parser = at_least_one)]
    limit: Option<usize>,
    /// Which part of the samples may be defective, 0 to 1: they are left out.
    #[arg(long, value_name = "FRACTION", default_value_t = Tolerance::default().max_bad_fraction)]
    max_bad_fraction: f64,
    /// Where defective samples are listed, a JSON object a line; images that cannot be decoded in a file of
    /// this name with `.images` at its end.
    #[arg(long, value_name = "FILE")]
    defects: Option<PathBuf>,
}

impl DataArgs {
    /// What messages call the annotations.
    pub fn name(&self) -> String {
        let names = self.data.iter().chain(&self.annotations).map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The images to train on, for a model with so many labels or, where there is none yet, labelled by the
    /// order of the categories.
    pub fn train(&self, labels: Option<usize>) -> Result<CocoDataset> {
        let options = LoadOptions { labels, tolerance: self.tolerance(), ..LoadOptions::new(Purpose::Train) };
        let mut dataset = match &self.data {
            Some(folder) => DetectionFolder::open(folder)?.load(Split::Train, &options)?,
            None => self.annotated(&options)?,
        };
        dataset.images.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(dataset)
    }

    /// The images of all annotation files.
    fn annotated(&self, options: &LoadOptions) -> Result<CocoDataset> {
        let (files, folders) = (self.annotations.len(), self.images.len());
        ensure!(
            files == folders && files > 0,
            "--annotations is given {files} times, --images {folders} times; give them in pairs, or --data"
        );
        let load = |(file, folder): (&PathBuf, &PathBuf)| CocoDataset::load(file, folder, options);
        let mut datasets = self.annotations.iter().zip(&self.images).map(load);
        let first = datasets.next().context("there is one")??;
        let others = datasets.collect::<ebm_data::Result<Vec<_>>>()?;
        Ok(first.joined(self.annotations[1..].iter().cloned().zip(others))?)
    }

    /// The split to choose by, of a folder that has one.
    pub fn validation(&self, labels: usize) -> Result<Option<CocoDataset>> {
        let Some(folder) = &self.data else { return Ok(None) };
        let folder = DetectionFolder::open(folder)?;
        if !folder.splits().contains(&Split::Valid) {
            return Ok(None);
        }
        let options = LoadOptions { labels: Some(labels), ..LoadOptions::new(Purpose::Eval) };
        let options = LoadOptions { tolerance: Tolerance { report: None, ..self.tolerance() }, ..options };
        folder.load(Split::Valid, &options).map(Some).with_context(|| format!("{}, split valid", self.name()))
    }

    /// What is tolerated while the images are read.
    pub fn tolerance_of_images(&self) -> Tolerance {
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(".images");
            PathBuf::from(name)
        };
        Tolerance { report: self.defects.as_deref().map(beside), ..self.tolerance() }
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance { max_bad_fraction: self.max_bad_fraction, report: self.defects.clone() }
    }
}
