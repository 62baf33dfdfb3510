//! A trained tracker for other programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use ebm_base::Key;
use ebm_data::Image;
use ebm_data::sequences::{Rect, Sequence};
use ebm_nn::import::WeightBytes;
use ebm_train::ModelFile;

use crate::Result;
use crate::backbone::Backbone;
use crate::box_module::BoxModule;
use crate::saved::SavedConfig;
use crate::sequence::{FrameCallback, TrackedSequence, track_sequence};
use crate::tracker::{Networks, TargetTracker};

/// A trained tracker for any target, on the CPU.
///
/// ```no_run
/// use ebm_data::decode::read_image;
/// use ebm_track::Tracker;
///
/// let tracker = Tracker::open("runs/tracking-mini-1/ebm-0")?;
/// // The target in the first frame: x, y, width, height in pixels.
/// let mut target = tracker.start(&read_image("video/0000.jpg".as_ref())?, [57.0, 21.0, 31.0, 45.0])?;
/// let found = target.track(&read_image("video/0001.jpg".as_ref())?)?;
/// println!("{:?}, score {:.2}", found.bbox, found.score);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tracker {
    /// Networks.
    pub networks: Arc<Networks<BoxModule>>,
    /// Settings of training and tracking.
    pub saved: SavedConfig,
    /// Key of all random numbers.
    pub key: Key,
}

/// Options for opening a [`Tracker`].
#[derive(Clone, Debug, Default)]
pub struct TrackerOptions {
    /// Path of the backbone's weight file, if it was moved after training.
    pub backbone: Option<PathBuf>,
    /// Seed of all random numbers of the tracker.
    pub seed: u64,
}

/// Box module of the bundled tracker.
static BUNDLED: &[u8] = include_bytes!("../embedded/tracker.safetensors");

impl Tracker {
    /// Opens the tracker whose box module is the file `path`, or is in the run directory `path`, with default options.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &TrackerOptions::default())
    }

    /// Opens the tracker whose box module is the file `path`, or is in the run directory `path`.
    ///
    /// # Errors
    /// As [`SavedConfig::load`].
    pub fn open_with(path: impl AsRef<Path>, options: &TrackerOptions) -> Result<Self> {
        Self::of(SavedConfig::load(path.as_ref(), options.backbone.as_deref(), &Device::Cpu)?, options)
    }

    /// Opens the tracker that is bundled with this program. `backbone` are the bytes of the repository's
    /// `weights/refiner.safetensors`, which `ebm-detect` bundles.
    ///
    /// # Errors
    /// [`Error::Weights`](crate::Error::Weights) when `backbone` is another network.
    pub fn bundled(backbone: &[u8], options: &TrackerOptions) -> Result<Self> {
        let model = ModelFile::of(&WeightBytes::embedded("the bundled tracker", BUNDLED), &Device::Cpu)?;
        let own = || Ok(WeightBytes::embedded("the tracker's bundled backbone", backbone));
        let given = |path: &PathBuf| Ok(WeightBytes::read(path)?);
        let loaded =
            SavedConfig::of(model, &Device::Cpu, |_| options.backbone.as_ref().map_or_else(own, given))?;
        Self::of(loaded, options)
    }

    fn of(
        (saved, backbone, module): (SavedConfig, Backbone, BoxModule),
        options: &TrackerOptions,
    ) -> Result<Self> {
        let networks = Arc::new(Networks {
            backbone: Arc::new(backbone),
            boxes: module,
            refinement: saved.refinement.clone(),
            density: saved.density.clone(),
            device: Device::Cpu,
        });
        Ok(Self { networks, saved, key: Key::new(options.seed).split("tracker") })
    }

    /// Starts tracking the target in the box `bbox` = `[x, y, width, height]` of the first frame `frame`, in pixels.
    ///
    /// # Errors
    /// As [`TargetTracker::start`].
    pub fn start(&self, frame: &Image, bbox: Rect) -> Result<TargetTracker<BoxModule>> {
        TargetTracker::start(&self.networks, &self.saved.tracker, frame, bbox, self.key)
    }

    /// Tracks the target of `sequence` from its first box on. `watch` is called after every later frame.
    /// The random numbers depend on the name of the sequence.
    ///
    /// # Errors
    /// As [`track_sequence`].
    pub fn track_sequence(
        &self,
        sequence: &Sequence,
        watch: &mut FrameCallback<'_, BoxModule>,
    ) -> Result<TrackedSequence> {
        let key = self.key.split(&sequence.name);
        track_sequence(&self.networks, &self.saved.tracker, sequence, key, watch)
    }
}
