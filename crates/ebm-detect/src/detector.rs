//! A trained detector as a value: images in, detections out.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use ebm_core::{GaussianMixture, Region};
use ebm_data::{
    Image,
    coco::CocoDataset,
    loader::{Loader, Sample},
};
use ebm_nn::boxes::{BBox, area};
use ebm_train::{Class, ModelMetadata};
use rand::RngCore;

use crate::{
    box_head::Candidate,
    branch::Branch,
    config::{ExperimentConfig, MapType},
    corner_density::BoxDensity,
    error::{Error, Result},
    evaluation::{Evaluation, Heads, Refiner, evaluate},
    faster_rcnn::{FasterRcnn, ImageBatch},
    inference::{BoxAscent, Head, RefinedCandidates, refine_candidates},
    input::{original_pixel, to_original},
    weights::{BRANCH, WeightFile, check_detector, classes, stated_configuration},
};

/// What a [`Detector`] is opened with beside its weights.
#[derive(Clone, Debug)]
pub struct DetectorOptions {
    /// Settings in place of those that the weights' file holds; needed for files that hold none.
    pub config: Option<ExperimentConfig>,
    /// A branch that was trained on this detector: a confidence to refine boxes with, or a density in the
    /// place of the regression.
    pub branch: Option<PathBuf>,
    /// The key of the branch's method, for a file that does not say it.
    pub method: Option<String>,
    /// The factor of the configured step lengths, in place of the one that validation data chose.
    pub step_factor: Option<f64>,
    /// In what the maps of body and pyramid are held.
    pub maps: MapType,
    /// Where the networks compute.
    pub device: Device,
}

impl Default for DetectorOptions {
    /// No branch, what the files say, the CPU.
    fn default() -> Self {
        let (config, branch, method, step_factor) = (None, None, None, None);
        Self { config, branch, method, step_factor, maps: MapType::default(), device: Device::Cpu }
    }
}

/// A trained detector, with the branch that was trained on top of it if there is one.
///
/// ```
/// use ebm_detect::Detector;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let weights = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/detector_mini.safetensors");
/// let detector = Detector::open(weights)?;
/// let image = ebm_data::Image::filled(160, 120, [90, 120, 150])?;
/// for found in detector.detect(&image)? {
///     let [x, y, width, height] = found.bbox;
///     println!("{} {:.2} at {x:.0}, {y:.0}, {width:.0} x {height:.0}", found.name(), found.score);
/// }
/// # Ok(())
/// # }
/// ```
///
/// Images come from files by [`ebm_data::decode::read_upright`]. With the branch that `ebm train branch`
/// wrote, boxes are refined:
///
/// ```no_run
/// use ebm_detect::{Detector, DetectorOptions};
///
/// # fn main() -> ebm_detect::Result<()> {
/// let options = DetectorOptions { branch: Some("runs/mine/ebm.safetensors".into()), ..Default::default() };
/// let detector = Detector::open_with("runs/base/detector.safetensors", &options)?;
/// # Ok(())
/// # }
/// ```
pub struct Detector {
    config: ExperimentConfig,
    network: FasterRcnn,
    branch: Option<TrainedBranch>,
    device: Device,
    /// Every file that says what it is.
    files: Vec<(PathBuf, ModelMetadata)>,
}

/// What was trained on top of the detector.
struct TrainedBranch {
    /// The method's key.
    method: String,
    branch: Branch,
    /// How its boxes climb, where they do.
    ascent: Option<BoxAscent>,
    /// Eq. 5 as the branch was trained with, of an energy model.
    proposal: Option<GaussianMixture>,
}

/// An object that was found. Boxes are `[x, y, width, height]` in pixels of the image.
#[derive(Clone, Debug)]
pub struct Detection {
    /// The network's label, from 1.
    pub label: usize,
    /// The class of that label; none where the weights' file names no classes.
    pub class: Option<Class>,
    /// The classification score, 0 to 1.
    pub score: f32,
    /// The box as the detector gave it.
    pub before: [f64; 4],
    /// The box after refinement; the same where nothing refines.
    pub bbox: [f64; 4],
    /// p(y | x) about the box, where it was asked for.
    pub density: Option<BoxDensity>,
}

impl Detection {
    /// The class's name, or the label where there is none.
    pub fn name(&self) -> String {
        self.class.as_ref().map_or_else(|| format!("class {}", self.label), |class| class.name.clone())
    }

    /// Where each edge of the box lies with probability `level`, in pixels of the image: left, top, right,
    /// bottom. None without [`density`](Self::density).
    ///
    /// # Errors
    /// When `level` is not between 0 and 1, or the density has no spread.
    pub fn edges(&self, level: f64) -> Result<Option<[Region; 4]>> {
        self.density.as_ref().map(|density| density.edge_regions(level)).transpose()
    }
}

/// For which detections p(y | x) is computed, and how well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DensityOptions {
    /// The least score.
    pub min_score: f32,
    /// Importance samples for each of them.
    pub samples: usize,
}

/// What is known of one image.
struct View {
    /// In the network's input.
    refinement: RefinedCandidates,
    /// From the input to the image.
    sample: Sample,
    /// P2 … P6.
    pyramid: Vec<Tensor>,
}

impl Detector {
    /// The detector in the file `weights`, on the CPU: one that was trained here, or of any
    /// [`Family`](crate::weights::Family) whose published configuration it has.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(weights: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(weights, &DetectorOptions::default())
    }

    /// The detector in the file `weights`, opened as `options` say.
    ///
    /// # Errors
    /// [`Error::Weights`] or [`Error::Train`] with both values, when the file does not hold the architecture,
    /// the branch was trained on another detector, or a file says nothing and `options` do not either.
    pub fn open_with(weights: impl AsRef<Path>, options: &DetectorOptions) -> Result<Self> {
        let device = options.device.clone();
        let weights = WeightFile::open(weights.as_ref(), &device)?;
        let mut config = options.config.clone().map_or_else(|| weights.configuration(), Ok)?;
        config.detector.backbone.maps = options.maps;
        let network = weights.detector(&config.detector)?;
        let of_branch = options.branch.as_ref().map(|path| WeightFile::open(path, &device)).transpose()?;
        let open = |file| TrainedBranch::open(file, (&weights, &config), options);
        let branch = of_branch.as_ref().map(open).transpose()?;
        let files = [Some(&weights), of_branch.as_ref()].into_iter().flatten();
        let files =
            files.filter_map(|file| Some((file.path().to_owned(), file.metadata()?.clone()))).collect();
        Ok(Self { config, network, branch, device, files })
    }

    /// The settings.
    pub fn config(&self) -> &ExperimentConfig {
        &self.config
    }

    /// The key of the method by which boxes are found: the branch's, or else [`ExperimentConfig::DIRECT`].
    pub fn method(&self) -> &str {
        self.branch.as_ref().map_or(ExperimentConfig::DIRECT, |branch| &branch.method)
    }

    /// The classes that it finds, by label; empty where its files name none.
    pub fn classes(&self) -> &[Class] {
        let mut named = self.files.iter().map(|(_, said)| &said.classes[..]);
        named.find(|classes| !classes.is_empty()).unwrap_or_default()
    }

    /// Refuses annotations of other classes than the files say that they were trained on.
    ///
    /// # Errors
    /// [`Error::Train`] with both names.
    pub fn check_classes(&self, annotations: &Path, dataset: &CocoDataset) -> Result<()> {
        let (name, classes) = (annotations.display().to_string(), classes(dataset));
        for (path, said) in &self.files {
            said.check_classes(path, &name, &classes)?;
        }
        Ok(())
    }

    /// The objects in `image`, best score first.
    ///
    /// # Errors
    /// When the networks produce numbers that no box can be made of.
    pub fn detect(&self, image: &Image) -> Result<Vec<Detection>> {
        Ok(self.detections(&self.look(image)?))
    }

    /// The same with p(y | x) of those that `options` ask for, drawn with `rng`.
    ///
    /// # Errors
    /// [`Error::Config`] without an energy model as branch; else as [`detect`](Self::detect).
    pub fn detect_with_density(
        &self,
        image: &Image,
        options: &DensityOptions,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<Detection>> {
        let (head, proposal) = self.energy()?;
        let view = self.look(image)?;
        let convention = self.config.detector.convention.into();
        // One that climbed out of the image has no size that a density could be measured in.
        let after = &view.refinement.after;
        let is_wanted =
            |&i: &usize| after[i].score >= options.min_score && area(&after[i].bbox, convention) > 0.0;
        let wanted: Vec<usize> = (0..after.len()).filter(is_wanted).collect();
        let object = |&i: &usize| (after[i].label as u32, after[i].bbox);
        let (labels, boxes): (Vec<u32>, Vec<BBox>) = wanted.iter().map(object).unzip();
        let densities = BoxDensity::about(
            &head,
            &view.pyramid,
            (&vec![0; boxes.len()], &labels, &boxes),
            convention,
            (proposal, options.samples),
            rng,
        )?;
        let factors = original_pixel(&view.sample);
        let mut found = self.detections(&view);
        for (i, density) in wanted.into_iter().zip(densities) {
            found[i].density = Some(density.scaled(factors, convention));
        }
        Ok(found)
    }

    /// The detections of the images of `loader`, which are those of `dataset`, in COCO's form: Faster-RCNN's
    /// own, and the branch's. `progress` is told the number of images done.
    ///
    /// # Errors
    /// When an image cannot be read, or a network fails.
    pub fn evaluate(
        &self,
        dataset: &CocoDataset,
        loader: &Loader,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Evaluation> {
        evaluate(&self.network, dataset, loader, &self.heads(), &self.device, progress)
    }

    /// Refuses [`detect_with_density`](Self::detect_with_density) before anything is computed where there is
    /// no energy model.
    ///
    /// # Errors
    /// [`Error::Config`] with what the branch is instead.
    pub fn check_density(&self) -> Result<()> {
        self.energy().map(|_| ())
    }

    /// What finds boxes beside Faster-RCNN's regression: the branch, if there is one.
    fn heads(&self) -> Heads<'_> {
        Heads::of(self.branch.iter().map(|trained| (&trained.branch, trained.ascent.as_ref())))
    }

    /// The energy model with Eq. 5 as it was trained with: what has a density p(y | x) of boxes.
    fn energy(&self) -> Result<(&Head, &GaussianMixture)> {
        let proposal = self.branch.as_ref().and_then(|branch| branch.proposal.as_ref());
        if let (Some(refiner), Some(proposal)) = (self.heads().refiners.first(), proposal) {
            return Ok((refiner.head, proposal));
        }
        let reason = match &self.branch {
            Some(branch) => {
                format!("p(y|x) is of energy models, and this is a branch of {}", branch.method)
            }
            None => "p(y|x) needs the weights of an energy model beside the detector's".to_owned(),
        };
        Err(Error::Config { name: "density".into(), reason })
    }

    fn look(&self, image: &Image) -> Result<View> {
        let config = &self.config.detector;
        let (images, sample) = ImageBatch::of_image(image, &config.input, &self.device)?;
        let pyramid = self.network.features(&images.pixels, false)?;
        let scored = self.network.scored(&pyramid, &images)?;
        let heads = self.heads();
        let refinement = match (heads.refiners.first(), heads.parametric.first()) {
            (Some(Refiner { head, ascent }), _) => {
                let candidates = self.network.decode(&scored, None, &images)?;
                let refined =
                    refine_candidates(*head, &pyramid, (&candidates, &images.sizes), ascent, config)?;
                refined.into_iter().next().unwrap_or_default()
            }
            (None, density) => {
                let latent = || heads.key.split("latent").rng();
                let offsets = density.map(|head| head.offsets(&scored, &mut latent())).transpose()?;
                let candidates = self.network.decode(&scored, offsets.as_deref(), &images)?;
                let before = candidates.first().map_or(Ok(vec![]), |c| self.network.suppress(c))?;
                RefinedCandidates { after: before.clone(), before }
            }
        };
        Ok(View { refinement, sample, pyramid })
    }

    fn detections(&self, view: &View) -> Vec<Detection> {
        let convention = self.config.detector.convention.into();
        let corners = |c: &Candidate| to_original(&c.bbox, &view.sample, convention);
        let RefinedCandidates { before, after } = &view.refinement;
        let detection = |(before, after): (&Candidate, &Candidate)| Detection {
            label: after.label,
            class: self.classes().iter().find(|class| class.label == after.label).cloned(),
            score: after.score,
            before: corners(before),
            bbox: corners(after),
            density: None,
        };
        before.iter().zip(after).map(detection).collect()
    }
}

impl TrainedBranch {
    /// The branch in `file`, for the detector in the file `weights` with `config`.
    fn open(
        file: &WeightFile,
        (weights, config): (&WeightFile, &ExperimentConfig),
        options: &DetectorOptions,
    ) -> Result<Self> {
        let (path, said) = (file.path(), file.metadata());
        let refuse = |reason: String| Error::Weights { path: path.to_owned(), reason };
        if let Some(said) = said {
            said.check_task(path, &[BRANCH])?;
        }
        let method = match (&options.method, said.map(|said| &said.method)) {
            (Some(given), Some(own)) if given != own => {
                return Err(refuse(format!("it is a branch of {own}, not of --method {given}")));
            }
            (_, Some(method)) | (Some(method), None) => method.clone(),
            (None, None) => {
                return Err(refuse("it does not say of which method it is; give --method".to_owned()));
            }
        };
        // Its own settings, unless others are asked for.
        let trained = match said {
            None => config.clone(),
            Some(said) => {
                check_detector(said, path, config, &weights.digest()?)?;
                stated_configuration(said, path)?
            }
        };
        // A name that the command line does not give is the file's.
        let row = trained.method(&method).map_err(|error| match options.method {
            Some(_) => error,
            None => refuse(error.to_string()),
        })?;
        let branch = Branch::load(row.density.as_ref(), &config.detector, file)?;
        let factor = options.step_factor.or_else(|| said?.step_factor).unwrap_or(1.0);
        let climbing = options.config.as_ref().map_or(Ok(row), |given| given.method(&method))?;
        let ascent = climbing.ascent().map(|ascent| ascent.scaled(factor));
        let energy = row.confidence.as_ref().filter(|_| method == ExperimentConfig::ENERGY);
        let proposal = energy.and_then(|branch| branch.objective.gaussian());
        Ok(Self { method, branch, ascent, proposal })
    }
}
