//! A trained model in an argument: a place on this machine, or in the Hugging Face Hub.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ebm_data::fetch::{HubModel, snapshot};

use crate::commands::data_get::{fetch_options, reporter};

/// A file or folder, or `hub:OWNER/NAME[@REVISION][/PATH]`, whose files are fetched when they are asked for.
#[derive(Clone, Debug)]
pub struct ModelPath(PathBuf);

impl<T: Into<OsString>> From<T> for ModelPath {
    fn from(text: T) -> Self {
        Self(text.into().into())
    }
}

impl ModelPath {
    /// As it was given, for messages.
    pub fn given(&self) -> &Path {
        &self.0
    }

    /// The file or folder on this machine.
    pub fn local(&self) -> Result<PathBuf> {
        Ok(self.fetched()?.unwrap_or_else(|| self.0.clone()))
    }

    /// The file of weights on this machine; of a repository that is the one that it has, or model.safetensors.
    pub fn file(&self) -> Result<PathBuf> {
        let Some(folder) = self.fetched()?.filter(|path| path.is_dir()) else { return self.local() };
        let usual = folder.join("model.safetensors");
        if usual.is_file() {
            return Ok(usual);
        }
        let names = ebm_data::files::files_in(&folder, &["safetensors"])?;
        let given = self.0.display();
        match names.as_slice() {
            [only] => Ok(folder.join(only)),
            [] => bail!("{given} has no .safetensors file; give a model's repository"),
            [first, ..] => bail!(
                "{given} has {} .safetensors files and no model.safetensors; say which, as in {given}/{}",
                names.len(),
                first.display()
            ),
        }
    }

    /// Where the Hub's cache has it, if it is of the Hub.
    fn fetched(&self) -> Result<Option<PathBuf>> {
        let Some(text) = self.0.to_str().filter(|text| text.starts_with(HubModel::PREFIX)) else {
            return Ok(None);
        };
        let model: HubModel = text.parse()?;
        let options = fetch_options(false);
        let hub = options.hub.as_ref().context("the Hub's cache has no place: set HF_HOME")?;
        Ok(Some(snapshot(&model, hub, &options, &mut reporter())?))
    }
}
