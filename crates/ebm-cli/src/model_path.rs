//! Arguments that name a trained model, on this machine or in the Hugging Face Hub.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Result, bail};
use ebm_data::fetch::{FetchOptions, Hub, HubModel, snapshot};

use crate::commands::data_get::reporter;
use crate::weights_path;

/// Path of a file or folder, or `hub:OWNER/NAME[@REVISION][/PATH]`. Files of the Hub are downloaded on first use.
#[derive(Clone, Debug)]
pub struct ModelPath {
    given: PathBuf,
    /// Path in the Hub's cache, kept so that one command asks the Hub once.
    fetched: OnceLock<PathBuf>,
}

impl<T: Into<OsString>> From<T> for ModelPath {
    fn from(text: T) -> Self {
        Self { given: text.into().into(), fetched: OnceLock::new() }
    }
}

impl ModelPath {
    /// Returns the path as it was given, for messages.
    pub fn given(&self) -> &Path {
        &self.given
    }

    /// Returns the path of the file or folder on this machine. A missing `weights/NAME` is looked for in all
    /// [`folders`](weights_path::folders) of weights.
    pub fn local(&self) -> Result<PathBuf> {
        if let Some(fetched) = self.fetched()? {
            return Ok(fetched.to_owned());
        }
        match self.given.strip_prefix(weights_path::FOLDER) {
            Ok(name) if !self.given.exists() => weights_path::find(name),
            _ => Ok(self.given.clone()),
        }
    }

    /// Returns the path of the weights file on this machine. In a repository of the Hub that is model.safetensors, or
    /// else the only .safetensors file.
    pub fn file(&self) -> Result<PathBuf> {
        let Some(folder) = self.fetched()?.filter(|path| path.is_dir()) else { return self.local() };
        let usual = folder.join("model.safetensors");
        if usual.is_file() {
            return Ok(usual);
        }
        let files = ebm_data::files::files_in(folder, &["safetensors"])?;
        let given = self.given.display();
        match files.as_slice() {
            [only] => Ok(only.clone()),
            [] => bail!("{given} has no .safetensors file; give a model's repository"),
            [first, ..] => bail!(
                "{given} has {} .safetensors files and no model.safetensors; say which, as in {given}/{}",
                files.len(),
                first.file_name().unwrap_or_default().display()
            ),
        }
    }

    /// Returns the path in the Hub's cache, or `None` if the model is not from the Hub.
    fn fetched(&self) -> Result<Option<&Path>> {
        if let Some(fetched) = self.fetched.get() {
            return Ok(Some(fetched));
        }
        let Some(text) = self.given.to_str().filter(|text| text.starts_with(HubModel::PREFIX)) else {
            return Ok(None);
        };
        let model: HubModel = text.parse()?;
        let hub = Hub::from_variables(|name| std::env::var(name).ok())?;
        let fetched = snapshot(&model, &hub, &FetchOptions::default(), &mut reporter())?;
        Ok(Some(self.fetched.get_or_init(|| fetched)))
    }
}
