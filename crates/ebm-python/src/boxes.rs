//! Detectors, and refiners of other detectors' boxes.

use std::path::PathBuf;

use ebm_base::Key;
use ebm_detect::{
    BUNDLED_REFINER, BoxDensity, DensityOptions, DetectorOptions, Error, LabelledBox, RefinerOptions, Result,
};
use ebm_experiment::edges_of;
use ebm_nn::import::WeightBytes;
use pyo3::prelude::*;

use crate::data::watched;
use crate::picture::{Picture, rect};

/// Density around a box.
#[derive(IntoPyObject)]
struct Density {
    /// Intervals of left, top, right and bottom with probability 0.9; `None` if the samples have no spread.
    edges: Option<[Vec<[f64; 2]>; 4]>,
    effective_sample_size: f64,
    reliable: bool,
    calibrated: bool,
}

impl Density {
    fn of(density: BoxDensity) -> Result<Self> {
        let edges = match density.edge_intervals() {
            Err(Error::Core(ebm_core::Error::NoSpread { .. })) => None,
            edges => Some(edges?.map(|region| region.intervals)),
        };
        let effective_sample_size = density.effective_sample_size();
        let (reliable, calibrated) = (density.is_reliable(), density.is_calibrated());
        Ok(Self { edges, effective_sample_size, reliable, calibrated })
    }
}

/// Returns the key of a density's samples, that of `ebm refine` for the image with the id 0.
fn samples_key(seed: u64) -> Key {
    Key::new(seed).split("density").index(0)
}

/// A detector, and the least score of its detections.
#[pyclass(frozen)]
pub struct Detector(ebm_detect::Detector, f32);

/// A detection.
#[derive(IntoPyObject)]
pub struct Detection {
    label: usize,
    name: String,
    score: f32,
    r#box: [f64; 4],
    box_before: [f64; 4],
    density: Option<Density>,
}

impl Detection {
    fn of(found: ebm_detect::Detection) -> Result<Self> {
        let (label, name, score) = (found.label, found.name(), found.score);
        let (r#box, box_before) = (edges_of(found.bbox), edges_of(found.before));
        Ok(Self {
            label,
            name,
            score,
            r#box,
            box_before,
            density: found.density.map(Density::of).transpose()?,
        })
    }
}

#[pymethods]
impl Detector {
    /// Opens a detector, by default the bundled one.
    #[new]
    fn new(
        py: Python<'_>,
        weights: Option<PathBuf>,
        branch: Option<PathBuf>,
        refiner: Option<PathBuf>,
        min_score: f32,
    ) -> PyResult<Self> {
        let options = DetectorOptions { branch, refiner, min_score, ..DetectorOptions::default() };
        let detector = watched(py, |_| match weights {
            Some(weights) => ebm_detect::Detector::open_with(weights, &options),
            None => ebm_detect::Detector::bundled(&options),
        })?;
        Ok(Self(detector, min_score))
    }

    /// Returns the names of the classes, by label.
    fn classes(&self) -> Vec<String> {
        self.0.classes().iter().map(|class| class.name.clone()).collect()
    }

    /// Detects objects. With a number of samples, each gets a density.
    fn detect(
        &self,
        py: Python<'_>,
        picture: Picture,
        samples: Option<usize>,
        seed: u64,
    ) -> PyResult<Vec<Detection>> {
        let Self(detector, min_score) = self;
        watched(py, |_| {
            let (image, mut rng) = (picture.image()?, samples_key(seed).rng());
            let options = samples.map(|samples| DensityOptions { min_score: *min_score, samples });
            let mut found = match options {
                Some(options) => detector.detect_with_density(&image, &options, &mut rng)?,
                None => detector.detect(&image)?,
            };
            found.retain(|found| found.score >= *min_score);
            found.into_iter().map(Detection::of).collect()
        })
    }
}

/// A refiner of boxes.
#[pyclass(frozen)]
pub struct BoxRefiner(ebm_detect::BoxRefiner);

/// A refined box.
#[derive(IntoPyObject)]
pub struct Refined {
    r#box: [f64; 4],
    f: f32,
    density: Option<Density>,
}

impl Refined {
    fn of(ebm_detect::RefinedBox { bbox, f, density, .. }: ebm_detect::RefinedBox) -> Result<Self> {
        Ok(Self { r#box: edges_of(bbox), f, density: density.map(Density::of).transpose()? })
    }
}

#[pymethods]
impl BoxRefiner {
    /// Opens a refiner, by default the bundled one.
    #[new]
    fn new(py: Python<'_>, weights: Option<PathBuf>) -> PyResult<Self> {
        watched(py, |_| {
            let (bundled, options) =
                (WeightBytes::embedded("the bundled refiner", BUNDLED_REFINER), RefinerOptions::default());
            let own = || ebm_detect::BoxRefiner::of_bytes(&bundled, &options);
            Ok(Self(weights.map_or_else(own, |path| ebm_detect::BoxRefiner::open_with(path, &options))?))
        })
    }

    /// Returns the names of the classes that the refiner was trained on.
    fn classes(&self) -> Vec<String> {
        self.0.classes().iter().map(|class| class.name.clone()).collect()
    }

    /// Refines boxes; a box of an unknown class gives `None`. Without names, all are of the refiner's only class.
    fn refined(
        &self,
        py: Python<'_>,
        picture: Picture,
        boxes: Vec<[f64; 4]>,
        names: Option<Vec<String>>,
        samples: Option<usize>,
        seed: u64,
    ) -> PyResult<Vec<Option<Refined>>> {
        let refiner = &self.0;
        watched(py, |_| {
            let labels: Vec<Option<usize>> = match names {
                Some(names) => names.iter().map(|name| refiner.label_of(0, Some(name))).collect(),
                None if refiner.config().network.is_class_agnostic() => vec![Some(0); boxes.len()],
                None => {
                    return Err(Error::config("labels", "the refiner has an f for each class; give labels"));
                }
            };
            let given = |(bbox, label): (&[f64; 4], &Option<usize>)| {
                Some(LabelledBox { bbox: rect(*bbox), label: (*label)? })
            };
            let given: Vec<LabelledBox> = boxes.iter().zip(&labels).filter_map(given).collect();
            let (image, mut rng) = (picture.image()?, samples_key(seed).rng());
            let refined = match samples {
                Some(samples) => refiner.refine_with_density(&image, &given, samples, &mut rng)?,
                None => refiner.refine(&image, &given)?,
            };
            let mut refined = refined.into_iter();
            let each = labels.into_iter().map(|label| label.and_then(|_| refined.next()));
            each.map(|refined| refined.map(Refined::of).transpose()).collect()
        })
    }
}
