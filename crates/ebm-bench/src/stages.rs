//! What the stages of a trained detector take, on a user's own images.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use candle_core::{Device, Tensor};
use ebm_core::EnergyModel;
use ebm_data::decode::read_upright;
use ebm_detect::config::ExperimentConfig;
use ebm_detect::weights::{BRANCH, WeightFile, check_detector, stated_configuration};
use ebm_detect::{
    BoxAscent, BoxFeatures, Branch, EnergyHead, FasterRcnn, ImageBatch, RefinedCandidates, refine_candidates,
};
use ebm_nn::device::Precision;
use serde::Serialize;

use super::compare::Series;

/// The stages in their order; what reads and resizes an image is none of them.
pub const NAMES: [&str; 6] = ["body", "pyramid", "proposals", "box head", "guided suppression", "refinement"];

/// A trained Faster-RCNN, the confidence that was trained on top of it, and images to look at.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The detector's weights.
    pub detector: PathBuf,
    /// The branch's.
    pub head: PathBuf,
    /// JPEG, PNG, BMP or WebP files.
    pub images: Vec<PathBuf>,
    /// In what the confidence multiplies on the CPU.
    pub precision: Precision,
}

/// What the stages took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stages {
    /// For each of [`NAMES`] its seconds an image, the mean over the images, in every round.
    pub series: Vec<Series>,
    /// The same of all together.
    pub all: Series,
    /// How many images there are.
    pub images: usize,
    /// How many candidates guided suppression chooses from, the mean over the images.
    pub candidates: f64,
    /// How many boxes are refined.
    pub boxes: f64,
}

/// Times the stages in `rounds` rounds over all images, one by one, with so many threads; a round before them
/// is not counted.
///
/// # Errors
/// When a file is not what it should be, the branch has no boxes that climb, or a network fails.
pub fn stages(trained: &Trained, rounds: usize, threads: usize, device: &Device) -> Result<Stages> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| {
        let (network, images) = (Network::open(trained, device)?, trained.images.len());
        let mut stages = Stages { series: vec![Series::default(); NAMES.len()], images, ..Stages::default() };
        let read = |path: &PathBuf| -> Result<ImageBatch> {
            let (batch, _) =
                ImageBatch::of_image(&read_upright(path)?, &network.config.detector.input, device)?;
            Ok(batch)
        };
        let batches = trained.images.iter().map(read).collect::<Result<Vec<_>>>()?;
        for round in 0..=rounds {
            let mut sums = [0.0; NAMES.len()];
            (stages.candidates, stages.boxes) = (0.0, 0.0);
            for batch in &batches {
                let seen = network.look(batch, device)?;
                sums.iter_mut().zip(seen.seconds).for_each(|(sum, seconds)| *sum += seconds);
                stages.candidates += seen.candidates as f64 / images as f64;
                stages.boxes += seen.boxes as f64 / images as f64;
            }
            if round > 0 {
                let means = sums.map(|sum| sum / images as f64);
                stages.series.iter_mut().zip(means).for_each(|(series, mean)| series.seconds.push(mean));
                stages.all.seconds.push(means.iter().sum());
            }
        }
        Ok(stages)
    })
}

/// The detector with its confidence.
struct Network {
    config: ExperimentConfig,
    network: FasterRcnn,
    head: Noted,
    ascent: BoxAscent,
}

/// One image.
struct Seen {
    seconds: [f64; NAMES.len()],
    candidates: usize,
    boxes: usize,
}

impl Network {
    fn open(Trained { detector, head, precision, .. }: &Trained, device: &Device) -> Result<Self> {
        let (file, branch) = (WeightFile::open(detector, device)?, WeightFile::open(head, device)?);
        let config = file.configuration()?;
        let name = head.display();
        let said =
            branch.metadata().with_context(|| format!("{name} does not say of what it is a branch"))?;
        said.check_task(head, &[BRANCH])?;
        check_detector(said, head, &config, &file.digest()?)?;
        let trained = stated_configuration(said, head)?;
        let method = trained.method(&said.method)?;
        let ascent = method.ascent();
        let ascent =
            ascent.with_context(|| format!("{name} is of {}, whose boxes do not climb", said.method))?;
        let Branch::Confidence(energy) = Branch::load(None, &config.detector, &branch)? else {
            bail!("{name} is no confidence");
        };
        let (energy, network) = (energy.in_precision(*precision), file.detector(&config.detector)?);
        let ascent = ascent.scaled(said.step_factor.unwrap_or(1.0));
        Ok(Self { config, network, head: Noted { energy, asked: RefCell::default() }, ascent })
    }

    fn look(&self, batch: &ImageBatch, device: &Device) -> Result<Seen> {
        let mut times = vec![Instant::now()];
        let mut lap = || -> Result<()> {
            device.synchronize()?;
            times.push(Instant::now());
            Ok(())
        };
        let maps = self.network.body(&batch.pixels, false)?;
        lap()?;
        let pyramid = self.network.pyramid(&maps)?;
        lap()?;
        let proposals = self.network.proposals(&pyramid, batch)?;
        lap()?;
        let scored = self.network.score(&pyramid, &proposals)?;
        let candidates = self.network.decode(&scored, None, batch)?;
        lap()?;
        self.head.asked.borrow_mut().clear();
        let config = &self.config.detector;
        let refined =
            refine_candidates(&self.head, &pyramid, &candidates, &batch.sizes, &self.ascent, config)?;
        lap()?;
        // Suppression asks for f once, where it is guided by it.
        let before = usize::from(config.guided_suppression);
        let end = times[times.len() - 1];
        let climbs = self.head.asked.borrow().get(before).copied().unwrap_or(end);
        times.insert(times.len() - 1, climbs);
        let mut seconds = [0.0; NAMES.len()];
        for (seconds, pair) in seconds.iter_mut().zip(times.windows(2)) {
            *seconds = (pair[1] - pair[0]).as_secs_f64();
        }
        let boxes = refined.iter().map(|RefinedCandidates { after, .. }| after.len()).sum();
        Ok(Seen { seconds, candidates: candidates.iter().map(Vec::len).sum(), boxes })
    }
}

/// f, which notes when it is asked: where suppression ends and the ascent begins.
struct Noted {
    energy: EnergyHead,
    asked: RefCell<Vec<Instant>>,
}

impl Noted {
    fn note(&self) {
        self.asked.borrow_mut().push(Instant::now());
    }
}

impl EnergyModel for Noted {
    type Features = BoxFeatures;

    fn score(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.note();
        self.energy.score(features, y)
    }

    fn score_and_grad(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        self.note();
        self.energy.score_and_grad(features, y)
    }

    fn score_and_grad_where(
        &self,
        features: &BoxFeatures,
        y: &Tensor,
        is_read: &dyn Fn(usize, f64) -> bool,
    ) -> ebm_core::Result<(Tensor, Tensor)> {
        self.note();
        self.energy.score_and_grad_where(features, y, is_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_data::encode::write_jpeg;
    use ebm_detect::weights::{branch_metadata, save};
    use ebm_seed::Key;
    use ebm_synth::scenes::{SceneConfig, render_scene};
    use std::path::Path;

    #[test]
    fn a_detector_with_a_new_confidence_is_timed() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights/detector_mini.safetensors");
        let file = WeightFile::open(&path, &Device::Cpu).unwrap();
        let config = file.configuration().unwrap();
        let key = Key::new(3);
        let (_, store) = Branch::new(None, &config.detector, file.tensors(), &Device::Cpu, key).unwrap();
        let method = config.method(ExperimentConfig::ENERGY).unwrap();
        let said = branch_metadata(method, 3, &config, &file.digest().unwrap(), &[]).unwrap();
        let head = dir.path().join("head.safetensors");
        save(&store, &head, &said).unwrap();
        let image = dir.path().join("scene.jpg");
        write_jpeg(&image, &render_scene(&SceneConfig::default(), key).unwrap().0, 90).unwrap();

        let precision = Precision::Bf16;
        let trained = Trained { detector: path.clone(), head: head.clone(), images: vec![image], precision };
        let found = stages(&trained, 2, 1, &Device::Cpu).unwrap();
        assert!(found.images == 1 && found.boxes > 0.0 && found.candidates >= found.boxes, "{found:?}");
        for (name, series) in NAMES.iter().zip(&found.series) {
            assert!(series.seconds.len() == 2 && series.minimum() > 0.0, "{name}: {found:?}");
        }
        let sum: f64 = found.series.iter().map(|series| series.seconds[0]).sum();
        assert!((sum / found.all.seconds[0] - 1.0).abs() < 1e-9);

        let swapped = Trained { detector: head, head: path, ..trained };
        assert!(stages(&swapped, 1, 1, &Device::Cpu).is_err());
    }
}
