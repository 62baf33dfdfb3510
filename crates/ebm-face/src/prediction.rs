//! What a trained energy model says of single images.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_core::{GradientAscent, GridDensity, grid_marginals, refine};
use ebm_data::Error as DataError;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_data::faces::{Face, Faces, Pixels};
use ebm_seed::Key;

use crate::evaluation::{estimates, outputs};
use crate::saved::{Saved, TrainedHead};
use crate::training::images;
use crate::{EnergyHead, Error, Result};

/// An energy model, and the baseline whose estimates it refines.
pub struct Predictor {
    energy: Saved,
    baseline: Option<Saved>,
    ascent: GradientAscent,
}

/// What is known of one image's y.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Where the ascent began: the baseline's estimate, or, without one, the mode of the density of each coordinate.
    pub initial: Vec<f64>,
    /// The prediction: the initial point refined.
    pub y: Vec<f64>,
    /// p(y | x) of each coordinate.
    pub density: Vec<GridDensity>,
}

impl Predictor {
    /// `ascent` replaces what the energy model's run recorded.
    ///
    /// # Errors
    /// [`Error::Config`] when `energy` is a baseline or `baseline` none, when they are of different tasks, or when nothing says how
    /// to refine.
    pub fn new(energy: Saved, baseline: Option<Saved>, ascent: Option<GradientAscent>) -> Result<Self> {
        let fail = |reason: &str| Error::Config { part: "predictor", reason: reason.to_owned() };
        if !matches!(energy.head, TrainedHead::Energy(_)) {
            return Err(fail("an energy model's run is needed, and this is a baseline's"));
        }
        if let Some(baseline) = &baseline {
            if !matches!(baseline.head, TrainedHead::Baseline(..)) {
                return Err(fail(
                    "the initial estimates need a baseline's run, and this is an energy model's",
                ));
            }
            if baseline.config.experiment.coordinates != energy.config.experiment.coordinates {
                return Err(fail("the baseline and the energy model are of different tasks"));
            }
        }
        let ascent = ascent.or_else(|| energy.refinement.clone());
        let ascent =
            ascent.ok_or_else(|| fail("the energy model has no refinement.toml: give a step length"))?;
        Ok(Self { energy, baseline, ascent })
    }

    /// The energy model.
    pub fn energy(&self) -> &Saved {
        &self.energy
    }

    /// Looks at one image, resized to the network's input.
    ///
    /// # Errors
    /// When the image can not be decoded.
    pub fn predict(&self, pixels: Pixels) -> Result<Prediction> {
        let g_x = g_x(&self.energy, &pixels)?;
        let TrainedHead::Energy(head) = &self.energy.head else {
            return Err(Error::Config { part: "predictor", reason: "it has no energy model".to_owned() });
        };
        let density = self.density(head, &g_x)?;
        let initial = match &self.baseline {
            Some(saved) => estimate(saved, &pixels)?,
            None => density.iter().map(GridDensity::mode).collect(),
        };
        let features = head.features(&g_x)?;
        let y0 = Tensor::from_slice(&initial, (1, 1, initial.len()), &Device::Cpu)?.to_dtype(DType::F32)?;
        let refined = refine(head, &features, &y0, &self.ascent)?;
        let y = refined.y.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?;
        Ok(Prediction { initial, y, density })
    }

    fn density(&self, head: &EnergyHead, g_x: &Tensor) -> Result<Vec<GridDensity>> {
        let config = &self.energy.config.experiment;
        let features = head.features(g_x)?;
        let grids = vec![config.density; config.dim()];
        let marginals = grid_marginals(head, &features, 1, &grids, DType::F32, &Device::Cpu)?;
        Ok(marginals.into_iter().flatten().collect())
    }
}

/// The features of one image, `(1, X)`.
fn g_x(saved: &Saved, pixels: &Pixels) -> Result<Tensor> {
    let config = &saved.config.experiment;
    let face = Face { name: "image".to_owned(), pixels: pixels.clone(), target: vec![0.0; config.dim()] };
    let faces = Faces { faces: vec![face], ..Faces::default() };
    let loader = FaceLoaderConfig {
        max_bad_fraction: 0.0,
        workers: 0,
        ..FaceLoaderConfig::in_order(config.input.transform(false), 1)
    };
    let mut batches = FaceLoader::new(Arc::new(faces), loader, Key::new(0))?.epoch(0)?;
    let batch = batches.next().ok_or_else(|| {
        let detail = "the image could not be decoded".to_owned();
        DataError::Argument { name: "image", detail }
    })??;
    saved.trunk.features(&images(&batch, &Device::Cpu)?, false)
}

/// A baseline's estimate of one image.
fn estimate(saved: &Saved, pixels: &Pixels) -> Result<Vec<f64>> {
    let TrainedHead::Baseline(model, head) = &saved.head else {
        return Err(Error::Config { part: "predictor", reason: "it has no baseline".to_owned() });
    };
    let outputs = outputs(head, &g_x(saved, pixels)?)?;
    Ok(estimates(model, &outputs)?.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?)
}
