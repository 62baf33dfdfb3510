//! Prediction of age and head pose for single images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::{EnergyModel, GradientAscent, GridDensity, refine};
use ebm_data::Error as DataError;
use ebm_data::Image;
use ebm_data::faces::loader::{FaceLoader, FaceLoaderConfig};
use ebm_data::faces::{Face, Faces, Pixels, Tolerance};
use ebm_nn::import::WeightBytes;
use ebm_train::ModelFile;

use crate::evaluation::{estimates, numbers};
use crate::network::ENERGY;
use crate::reproduce::runs;
use crate::saved::{RunConfig, Saved};
use crate::training::images;
use crate::{Error, Result};

/// Title of configurations that estimate an age.
pub const AGE: &str = "age";
/// Title of configurations that estimate a head pose.
pub const HEAD_POSE: &str = "head pose";
/// Side of the crop, as a multiple of the longer side of a face's box, as in UTKFace.
pub const FACE_CROP: f64 = 1.5;
/// Minimum prominence of a mode of an age or an angle: the fall of log p, in nats, between it and the next mode.
pub const PROMINENCE: f64 = 0.3;
/// Probability of [`Estimate::interval`].
const INTERVAL: f64 = 0.9;

/// Chooses from `baselines`, by name, the one whose estimate starts the ascent. [`PredictorOptions::baseline`]
/// documents the rule; `asked` is its value. `place` begins the message of an error, for example "the program holds".
fn pick_baseline<T>(asked: Option<&str>, mut baselines: BTreeMap<&str, T>, place: &str) -> Result<Option<T>> {
    match asked {
        Some(NO_BASELINE) => Ok(None),
        Some(name) => baselines.remove(name).map(Some).ok_or_else(|| {
            let names: Vec<&str> = baselines.keys().copied().chain([NO_BASELINE]).collect();
            let reason = format!("{place} no baseline {name}; take one of {}", names.join(", "));
            Error::config("of the predictor", reason)
        }),
        None if baselines.len() == 1 => Ok(baselines.pop_first().map(|(_, only)| only)),
        None => Ok(baselines.remove(BUNDLED_BASELINE)),
    }
}

/// Name for no baseline. The ascent then starts at the mode of each coordinate's density.
pub const NO_BASELINE: &str = "none";
/// Key of the default baseline, which is bundled with this program.
pub const BUNDLED_BASELINE: &str = "direct_l2";

/// Options for opening a [`Predictor`].
#[derive(Clone, Debug, Default)]
pub struct PredictorOptions {
    /// Path of the backbone's weights, if they were moved after training.
    pub weights: Option<PathBuf>,
    /// Step length λ of the refinement, which replaces the one that the validation split chose.
    pub step_length: Option<f64>,
    /// Key of the baseline whose estimate starts the ascent on f, or [`NO_BASELINE`]. By default, this is the only
    /// baseline of the energy model's seed, else `direct_l2` of that seed, else none.
    pub baseline: Option<String>,
}

/// One coordinate of an estimate, in the unit of the task.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Predicted value.
    pub value: f64,
    /// The 5 % and the 95 % quantile of p(y | x). y lies between them with probability 0.9.
    pub interval: [f64; 2],
    /// Density p(y | x).
    pub density: GridDensity,
}

/// An estimator of the age of a face, in years.
///
/// ```no_run
/// use ebm_data::decode::read_upright;
/// use ebm_face::AgeEstimator;
///
/// let estimator = AgeEstimator::open("runs/age-mini-1")?;
/// let age = estimator.estimate(&read_upright("face.jpg".as_ref())?)?;
/// println!("{:.0} years, between {:.0} and {:.0}", age.value, age.interval[0], age.interval[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AgeEstimator(Predictor);

/// Networks of the repository's `weights/age`: the energy model and the baseline that it refines.
static BUNDLED: [&[u8]; 2] = [
    include_bytes!("../embedded/age/ebm-0/model.safetensors"),
    include_bytes!("../embedded/age/direct_l2-0/model.safetensors"),
];
static BUNDLED_BACKBONE: &[u8] = include_bytes!("../embedded/age/trunk.safetensors");

impl AgeEstimator {
    /// Opens the bundled networks, like [`Predictor::bundled`] with default options.
    ///
    /// # Errors
    /// As [`Predictor::bundled`].
    pub fn bundled() -> Result<Self> {
        Predictor::bundled(&PredictorOptions::default()).map(Self)
    }

    /// Opens the networks in `path`, like [`Predictor::open`] with default options.
    ///
    /// # Errors
    /// As [`Predictor::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Predictor::open(path.as_ref(), AGE, &PredictorOptions::default()).map(Self)
    }

    /// Estimates the age of the face that fills `image`.
    ///
    /// # Errors
    /// When the output of the network has no density.
    pub fn estimate(&self, image: &Image) -> Result<Estimate> {
        let [age] = self.0.estimate(image)?;
        Ok(age)
    }
}

/// An estimator of the pose of a head, in degrees. It is used like an [`AgeEstimator`].
pub struct HeadPoseEstimator(Predictor);

impl HeadPoseEstimator {
    /// Opens the networks in `path`, like [`Predictor::open`] with default options.
    ///
    /// # Errors
    /// As [`Predictor::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Predictor::open(path.as_ref(), HEAD_POSE, &PredictorOptions::default()).map(Self)
    }

    /// Estimates yaw, pitch and roll of the head that fills `image`, in degrees. As in BIWI, a positive yaw looks to
    /// the left of the image, a positive pitch looks upwards, and a positive roll turns the head clockwise.
    ///
    /// # Errors
    /// When the output of the network has no density.
    pub fn estimate(&self, image: &Image) -> Result<[Estimate; 3]> {
        self.0.estimate(image)
    }
}

/// An energy model with the baseline whose estimates it refines.
pub struct Predictor {
    energy: Saved,
    baseline: Option<Saved>,
    ascent: GradientAscent,
}

/// Prediction for one image.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Start of the ascent: the baseline's estimate, or without a baseline the mode of each coordinate's density.
    pub initial: Vec<f64>,
    /// Predicted y: the initial point after refinement.
    pub y: Vec<f64>,
    /// Density p(y | x) of each coordinate.
    pub density: Vec<GridDensity>,
}

impl Predictor {
    /// Opens the first energy model in `path`, with the baseline that `options` name. `path` is a model's file, the
    /// folder of a run, or the folder of a table with all its runs ([`runs`]). `title` is the title of the task.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such energy model or baseline, or when they are for another task;
    /// as [`Saved::load`].
    pub fn open(path: &Path, title: &str, options: &PredictorOptions) -> Result<Self> {
        let fail = |reason: String| Error::config("of the predictor", reason);
        let paths = if path.is_file() { vec![path.to_owned()] } else { runs(path)? };
        let mut found = Vec::new();
        for path in paths {
            found.push((RunConfig::of_model(&path)?, path));
        }
        let place = path.display();
        let Some((energy, model)) = found.iter().find(|(config, _)| config.method == ENERGY) else {
            return Err(fail(format!(
                "{place} has no energy model: give a directory of `ebm reproduce`, or the run of an energy model"
            )));
        };
        let known = &energy.experiment.title;
        if known != title {
            return Err(fail(format!("{place} is for the {known}, not for the {title}")));
        }
        let of_seed =
            found.iter().filter(|(config, _)| config.method != ENERGY && config.seed == energy.seed);
        let baselines = of_seed.map(|(config, path)| (config.method.as_str(), path)).collect();
        let place = format!("{place}, seed {}, has", energy.seed);
        let baseline = pick_baseline(options.baseline.as_deref(), baselines, &place)?;
        let weights = options.weights.as_deref();
        let baseline = baseline.map(|path| Saved::load(path, weights)).transpose()?;
        Self::new(Saved::load(model, weights)?, baseline, options.step_length)
    }

    /// Opens the networks for ages that are bundled with this program: an energy model, and `direct_l2`.
    ///
    /// # Errors
    /// [`Error::Config`] when `options` name another baseline; [`Error::Weights`] when `options.weights` is not the
    /// backbone of these networks.
    pub fn bundled(options: &PredictorOptions) -> Result<Self> {
        let held = [(BUNDLED_BASELINE, BUNDLED[1])].into();
        let baseline = pick_baseline(options.baseline.as_deref(), held, "the program holds")?;
        let load = |bytes| {
            let file = WeightBytes::embedded("the bundled network of ages", bytes);
            Saved::of(ModelFile::of(&file, &Device::Cpu)?, |_| {
                let own = || Ok(WeightBytes::embedded("the bundled backbone of ages", BUNDLED_BACKBONE));
                options.weights.as_deref().map_or_else(own, |path| Ok(WeightBytes::read(path)?))
            })
        };
        Self::new(load(BUNDLED[0])?, baseline.map(load).transpose()?, options.step_length)
    }

    /// Joins an energy model with a baseline. The step length λ `step_length` replaces the stored one.
    ///
    /// # Errors
    /// [`Error::Config`] when `energy` is a baseline, when `baseline` is an energy model, when they are for different
    /// tasks, or when no step length is known.
    pub fn new(energy: Saved, baseline: Option<Saved>, step_length: Option<f64>) -> Result<Self> {
        let fail = |reason: &str| Error::config("of the predictor", reason);
        if !energy.head.is_energy() {
            return Err(fail("an energy model's run is needed, and this is a baseline's"));
        }
        if let Some(baseline) = &baseline {
            if baseline.head.is_energy() {
                return Err(fail(
                    "the initial estimates need a baseline's run, and this is an energy model's",
                ));
            }
            if baseline.config.experiment.coordinates != energy.config.experiment.coordinates {
                return Err(fail("the baseline and the energy model are of different tasks"));
            }
        }
        let ascent = step_length.map(|length| energy.config.experiment.refinement.ascent(length));
        let ascent = ascent.or_else(|| energy.refinement.clone());
        let ascent = ascent.ok_or_else(|| fail("the energy model has no stored step length; give one"))?;
        Ok(Self { energy, baseline, ascent })
    }

    /// Returns the energy model.
    pub fn energy(&self) -> &Saved {
        &self.energy
    }

    /// Predicts y for one image, which is resized to the network's input.
    ///
    /// # Errors
    /// When the image cannot be decoded.
    pub fn predict(&self, pixels: Pixels) -> Result<Prediction> {
        let Saved { head, config: RunConfig { experiment, .. }, .. } = &self.energy;
        let features = head.features(&g_x(&self.energy, &pixels)?)?;
        let grids = vec![experiment.density; experiment.dim()];
        let density: Vec<_> = head.bind(&features, 1).marginals(&grids)?.into_iter().flatten().collect();
        let initial = match &self.baseline {
            Some(baseline) => {
                let outputs = baseline.head.features(&g_x(baseline, &pixels)?)?;
                numbers(&estimates(&baseline.head, &outputs)?)?
            }
            None => density.iter().map(GridDensity::mode).collect(),
        };
        let y0 = Tensor::from_slice(&initial, (1, 1, initial.len()), &Device::Cpu)?.to_dtype(DType::F32)?;
        let refined = refine(head, &features, &y0, &self.ascent)?;
        let y = numbers(&refined.y)?;
        Ok(Prediction { initial, y, density })
    }

    /// Estimates each of the `D` coordinates.
    fn estimate<const D: usize>(&self, image: &Image) -> Result<[Estimate; D]> {
        let Prediction { y, density, .. } = self.predict(Pixels::Memory(Arc::new(image.clone())))?;
        let tail = (1.0 - INTERVAL) / 2.0;
        let estimate = |(value, density): (f64, GridDensity)| -> Result<Estimate> {
            let interval = [density.quantile(tail)?, density.quantile(1.0 - tail)?];
            Ok(Estimate { value, interval, density })
        };
        let all = y.into_iter().zip(density).map(estimate).collect::<Result<Vec<_>>>()?;
        <[Estimate; D]>::try_from(all).map_err(|all| {
            Error::config("of the predictor", format!("the model has {} coordinates, not {D}", all.len()))
        })
    }
}

/// Computes the features g_x of one image `(1, X)`.
fn g_x(saved: &Saved, pixels: &Pixels) -> Result<Tensor> {
    let config = &saved.config.experiment;
    let face = Face { name: "image".to_owned(), pixels: pixels.clone(), target: vec![0.0; config.dim()] };
    let faces = Faces { faces: vec![face], ..Faces::default() };
    let loader = FaceLoaderConfig {
        tolerance: Tolerance { max_bad_fraction: 0.0, report: None },
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
