//! Which backbone: ImageNet's where its weights are at hand, else a small one that is trained here.

use std::path::{Path, PathBuf};

use candle_core::Device;
use ebm_data::sequences::Sequence;
use ebm_data::sequences::pairs::PairRecipe;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;
use ebm_train::{Progress, RunSpec, train_run};

use super::data::pair_loader;
use crate::Result;
use crate::backbone::Backbone;
use crate::config::{ExperimentConfig, Settings};
use crate::training::{CropStream, PREFIX, SmallBackboneTask};

/// Where a backbone comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackboneSource {
    /// A weight file.
    File(PathBuf),
    /// It is trained on the videos, and written to this file.
    Trained(PathBuf),
}

/// The ResNet-18 in the directory `weights`: the first file by name that begins with `resnet18` and ends with
/// `.safetensors` or `.pth`.
///
/// # Errors
/// When the directory is there and can not be listed.
pub fn find_backbone(weights: &Path) -> Result<Option<PathBuf>> {
    let fail = |source| ebm_data::Error::io("list", weights, source);
    let entries = match std::fs::read_dir(weights) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(fail(source).into()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(fail)?.path();
        let named =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("resnet18"));
        let weights = path.extension().is_some_and(|ending| ending == "safetensors" || ending == "pth");
        if named && weights {
            found.push(path);
        }
    }
    Ok(found.into_iter().min())
}

impl BackboneSource {
    /// The file that the backbone is in, after it was trained if it has to be.
    pub(super) fn open(
        &self,
        config: &ExperimentConfig,
        videos: &[Sequence],
        run: &Path,
        resume: bool,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<(PathBuf, Backbone)> {
        let path = match self {
            Self::File(path) => path.clone(),
            // It is written when its training is done.
            Self::Trained(path) if path.is_file() => path.clone(),
            Self::Trained(path) => {
                let spec = RunSpec { resume, ..RunSpec::new(run, "backbone", "", 0, 0) };
                train(config, videos, &spec, path, device, progress)?;
                path.clone()
            }
        };
        let backbone = Backbone::load(&path, device)?;
        Ok((path, backbone))
    }
}

/// Trains the small backbone and writes its parameters, with torchvision's names, to `path`.
fn train(
    config: &ExperimentConfig,
    videos: &[Sequence],
    spec: &RunSpec<'_>,
    path: &Path,
    device: &Device,
    progress: &mut dyn Progress,
) -> Result<()> {
    let (small, key) = (&config.small_backbone, Key::new(0).split("backbone"));
    let store = ParamStore::new(key.split("init"));
    // Answers need videos: single images have one frame, and nothing that stays the same between two.
    let (videos_alone, key_of_data) = (videos.to_vec(), key.split("data"));
    let loader = pair_loader(config, PairRecipe::ATOM, small.batch_size, videos_alone, None, key_of_data)?;
    let crops = CropStream::new(loader, device.clone());
    let mut task = SmallBackboneTask::new(small, store, crops, videos.len(), device)?;
    let text = config.to_toml()?;
    train_run(&RunSpec { config: &text, steps: small.steps, ..*spec }, &mut task, progress)?;
    let all = task.into_store().tensors()?;
    let own =
        all.into_iter().filter_map(|(name, tensor)| Some((name.strip_prefix(PREFIX)?.to_owned(), tensor)));
    Ok(ebm_nn::import::save_safetensors(path, &own.collect())?)
}
