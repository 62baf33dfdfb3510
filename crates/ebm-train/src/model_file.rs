//! Files of trained weights with a description of the model.
//!
//! A model is one safetensors file. Its metadata hold all that a later command needs beside the tensors: the task,
//! the training method, the whole configuration, the classes, and the base network. The metadata of a safetensors
//! file are strings by name. Every field of [`ModelMetadata`] is one of them, so that other programs can read it too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use ebm_nn::import::{self, WeightBytes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::base::moved_with;
use crate::checkpoint::{hexadecimal, sha256};
use crate::error::{Error, Result};
use crate::settings;

/// Version of the metadata that this crate writes. Files of a later version are refused.
pub const FORMAT_VERSION: u32 = 1;

const VERSION: &str = "format_version";

/// Metadata of a safetensors file, in free form.
pub type Metadata = BTreeMap<String, String>;

/// Class that a network was trained on, as the annotations name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Label of the network, from 1.
    pub label: usize,
    /// Id of the category in the annotations.
    pub id: u64,
    /// Name of the category.
    pub name: String,
}

/// Network that another network was trained on top of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseNetwork {
    /// SHA-256 in hexadecimal, either of the network's parameters ([`digest`]) or of its file; the task decides.
    #[serde(rename = "base_digest")]
    pub digest: String,
    /// Path of the file, if the task needs it again, relative to the folder of the model's file.
    #[serde(rename = "base_file", default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Description of a model in its weights file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// Name of the task, as the task crate defines it: `detection`, `age`, …
    pub task: String,
    /// Training method, by its key in result files.
    pub method: String,
    /// Root seed of the training; `None` if the weights were made elsewhere.
    #[serde(with = "text", default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Resolved configuration as TOML.
    pub config: String,
    /// Classes of the network; empty if it has none.
    #[serde(with = "json", default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// Requirements of an input image beyond the shape of a tensor, as TOML; empty if the configuration states
    /// them all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// Factor of the configured step lengths that was chosen on validation data; `None` if none was chosen.
    #[serde(with = "text", default, skip_serializing_if = "Option::is_none")]
    pub step_factor: Option<f64>,
    /// Other values that were chosen on validation data, as TOML of the task; empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub calibration: String,
    /// Base network of this one.
    #[serde(flatten)]
    pub base: Option<BaseNetwork>,
}

/// Conversion of numbers to the text of a metadata field.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
    {
        let text = String::deserialize(from)?;
        text.parse().map(Some).map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
    }
}

/// Conversion of lists to the text of a metadata field.
mod json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::DeserializeOwned, ser};

    pub(super) fn serialize<T: Serialize, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(value).map_err(<S::Error as ser::Error>::custom)?.serialize(to)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: DeserializeOwned,
        D: Deserializer<'de>,
    {
        serde_json::from_str(&String::deserialize(from)?).map_err(<D::Error as de::Error>::custom)
    }
}

impl ModelMetadata {
    /// Reads the metadata of the file at `path`; `None` for a file that was made elsewhere and has none.
    ///
    /// # Errors
    /// [`Error::Nn`] if the file cannot be read, [`Error::File`] if it is of a later version or its metadata are
    /// malformed.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        if path.extension().is_none_or(|extension| extension != "safetensors") {
            return Ok(None);
        }
        Self::parse(path, &import::metadata(path)?)
    }

    /// Parses `metadata` that were read from `path` before, like [`read`](Self::read).
    ///
    /// # Errors
    /// [`Error::File`] like [`read`](Self::read).
    pub fn parse(path: &Path, metadata: &Metadata) -> Result<Option<Self>> {
        let Some(version) = metadata.get(VERSION) else { return Ok(None) };
        if !version.parse().is_ok_and(|version: u32| (1..=FORMAT_VERSION).contains(&version)) {
            return Err(refusal(
                path,
                format!(
                    "its {VERSION} is {version}, and this program reads {FORMAT_VERSION}; use the program that wrote it"
                ),
            ));
        }
        let fields = metadata.iter().map(|(key, value)| (key.clone(), Value::String(value.clone())));
        let said = serde_json::from_value(Value::Object(fields.collect()));
        said.map(Some)
            .map_err(|error| refusal(path, format!("its metadata: {error}; take the file as it was written")))
    }

    /// Reads a file that must have metadata. With `tasks` it must also be a model for one of these tasks.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read); [`Error::File`] if the file has no metadata, or is for another task.
    pub fn require(path: &Path, tasks: &[&str]) -> Result<Self> {
        let found = Self::read(path)?.ok_or_else(|| no_metadata(path))?;
        if !tasks.is_empty() {
            found.check_task(path, tasks)?;
        }
        Ok(found)
    }

    /// Refuses the file at `path`, which has these metadata, if it is not a model for one of `tasks`.
    ///
    /// # Errors
    /// [`Error::File`] with the task of the model and the required tasks.
    pub fn check_task(&self, path: &Path, tasks: &[&str]) -> Result<()> {
        if tasks.contains(&self.task.as_str()) {
            return Ok(());
        }
        Err(refusal(
            path,
            format!("it is a model for {}, and one for {} is needed", self.task, tasks.join(" or ")),
        ))
    }

    /// Returns the metadata in the form of the file.
    ///
    /// # Errors
    /// [`Error::File`] if a path is not Unicode.
    pub fn to_metadata(&self) -> Result<Metadata> {
        let said = serde_json::to_value(self).and_then(serde_json::from_value::<Metadata>);
        let mut said = said.map_err(|error| refusal(Path::new("metadata"), error.to_string()))?;
        said.insert(VERSION.to_owned(), FORMAT_VERSION.to_string());
        Ok(said)
    }

    /// Writes `tensors` with these metadata to the file at `path`, atomically.
    ///
    /// # Errors
    /// If the file cannot be written; the errors of [`to_metadata`](Self::to_metadata).
    pub fn save(&self, path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        Ok(import::save_safetensors_with(path, tensors, &self.to_metadata()?)?)
    }

    /// Refuses annotations that have another name for a label than the classes of the file at `path`, which has these
    /// metadata. Messages call the annotations `annotations`. If the file names no classes, nothing is refused.
    ///
    /// # Errors
    /// [`Error::File`] with both names.
    pub fn check_classes(&self, path: &Path, annotations: &str, classes: &[Class]) -> Result<()> {
        for theirs in classes {
            let Some(ours) = self.classes.iter().find(|class| class.label == theirs.label) else { continue };
            if ours.name != theirs.name {
                let reason = format!(
                    "it was trained to find {:?} (id {}) where {annotations} has {:?} (id {}); take annotations with its \
                     categories",
                    ours.name, ours.id, theirs.name, theirs.id
                );
                return Err(refusal(path, reason));
            }
        }
        Ok(())
    }

    /// Refuses the model at `path`, which has these metadata, if it differs from `wanted`. It compares `method`,
    /// `seed`, `base_digest` and every setting of the configuration. Only values whose dotted name `matters`
    /// are compared.
    ///
    /// # Errors
    /// [`Error::File`] with both values of every difference, or if a configuration is no TOML.
    pub fn check_same(&self, path: &Path, wanted: &Self, matters: impl Fn(&str) -> bool) -> Result<()> {
        let [ours, theirs] = [self.settings(path)?, wanted.settings(path)?];
        let differences = settings::differences(&ours, &theirs, matters);
        if differences.is_empty() {
            return Ok(());
        }
        let remedy = "give the settings that it was trained with, or train another";
        Err(refusal(path, format!("the model was trained with {}; {remedy}", differences.join(", "))))
    }

    /// Returns the compared values by dotted name.
    fn settings(&self, path: &Path) -> Result<BTreeMap<String, String>> {
        let config = settings::flat(&self.config);
        let config = config.map_err(|error| refusal(path, format!("its metadata config: {error}")))?;
        let mut found = BTreeMap::from([("method".to_owned(), self.method.clone())]);
        found.extend(self.seed.map(|seed| ("seed".to_owned(), seed.to_string())));
        found.extend(self.base.as_ref().map(|base| ("base_digest".to_owned(), base.digest.clone())));
        found.extend(config);
        Ok(found)
    }
}

/// File of trained weights with its description.
pub struct ModelFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Metadata of the file.
    pub said: ModelMetadata,
    /// Tensors by name, as they are stored.
    pub tensors: BTreeMap<String, Tensor>,
}

impl ModelFile {
    /// Name of the model's file in the folder of a run.
    pub const NAME: &'static str = "model.safetensors";

    /// Returns `path`, or the model's file in `path` if it is the folder of a run.
    pub fn at(path: &Path) -> PathBuf {
        if path.is_dir() { path.join(Self::NAME) } else { path.to_owned() }
    }

    /// Reads the file [`at`](Self::at) `path` to the CPU.
    ///
    /// # Errors
    /// The errors of [`of`](Self::of).
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(&WeightBytes::read(&Self::at(path))?, &Device::Cpu)
    }

    /// Reads a model from a file's bytes, like [`open`](Self::open).
    ///
    /// # Errors
    /// [`Error::Nn`] if it cannot be read, [`Error::File`] if it has no metadata.
    pub fn of(file: &WeightBytes<'_>, device: &Device) -> Result<Self> {
        let (tensors, said) = file.load(device)?;
        let path = file.path.clone();
        let said = ModelMetadata::parse(&path, &said)?.ok_or_else(|| no_metadata(&path))?;
        Ok(Self { path, said, tensors })
    }

    /// Finds the file of the base network; `None` if the metadata name none.
    pub fn base_path(&self) -> Option<PathBuf> {
        Some(moved_with(&self.path, self.said.base.as_ref()?.file.as_ref()?))
    }

    /// Refuses a file that is not the base network of this one, for a [`BaseNetwork::digest`] of a file.
    ///
    /// # Errors
    /// [`Error::File`] with both digests.
    pub fn check_base(&self, base: &WeightBytes<'_>) -> Result<()> {
        let Some(BaseNetwork { digest: wanted, .. }) = &self.said.base else { return Ok(()) };
        let found = sha256(&base.bytes);
        if found == *wanted {
            return Ok(());
        }
        let path = self.path.display();
        let reason = format!(
            "SHA-256 {found} is not {wanted}, the network that {path} was trained on; give its place"
        );
        Err(refusal(&base.path, reason))
    }
}

fn no_metadata(path: &Path) -> Error {
    refusal(
        path,
        "it does not say what it is: it was made elsewhere; give one that was trained here".to_owned(),
    )
}

fn refusal(path: &Path, reason: String) -> Error {
    Error::File(path.to_owned(), reason)
}

/// Returns the SHA-256 in hexadecimal of a network's parameters in single precision, by name. It does not depend
/// on the format of their file.
///
/// # Errors
/// [`Error::Candle`] if a parameter cannot be read.
pub fn digest(parameters: &BTreeMap<String, Tensor>) -> Result<String> {
    let mut sum = Sha256::new();
    for (name, tensor) in parameters {
        sum.update(format!("{name} {:?}\n", tensor.dims()));
        let values = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.flatten_all()?.to_vec1::<f32>());
        let values = values.map_err(|source| Error::tensor(name, source))?;
        for value in values {
            sum.update(value.to_le_bytes());
        }
    }
    Ok(hexadecimal(&sum.finalize()))
}

/// Returns the SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Io`].
pub fn file_digest(path: &Path) -> Result<String> {
    let mut sum = Sha256::new();
    let mut copy = || std::io::copy(&mut ebm_base::files::open_input(path)?, &mut sum);
    copy().map_err(|source| Error::Io { path: path.to_owned(), action: "read", source })?;
    Ok(hexadecimal(&sum.finalize()))
}

#[cfg(test)]
mod tests;
