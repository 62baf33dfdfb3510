//! Files of trained weights that know what they are.
//!
//! A model is one safetensors file. Beside its tensors stands all that a later command needs to use them:
//! what it is for, how it was trained, the whole configuration, its classes, and the network that it was
//! trained on top of. The metadata of a safetensors file are strings by name; every field of
//! [`ModelMetadata`] is one of them, so that other programs can read it too.

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

/// The version of the metadata that this crate writes. Files of a later one are refused.
pub const FORMAT_VERSION: u32 = 1;

const VERSION: &str = "format_version";

/// The free-form metadata of a safetensors file.
pub type Metadata = BTreeMap<String, String>;

/// A class as the annotations call it that a network was trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The network's label, from 1.
    pub label: usize,
    /// The category's id in the annotations.
    pub id: u64,
    /// The category's name.
    pub name: String,
}

/// The network that another was trained on top of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseNetwork {
    /// SHA-256 in hexadecimal: of the network's parameters ([`digest`]) or of its file, as the task has it.
    #[serde(rename = "base_digest")]
    pub digest: String,
    /// Where its file was, if the task needs to find it again; relative to the folder of the model's file.
    #[serde(rename = "base_file", default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// What a file of trained weights says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// What the network is for, by the name that its task crate gives it: `detection`, `age`, …
    pub task: String,
    /// The method that it was trained with, by the key of result files.
    pub method: String,
    /// The root seed of the training; none where the weights were made elsewhere.
    #[serde(with = "text", default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The resolved configuration as TOML.
    pub config: String,
    /// The classes that it tells apart; empty where there are none.
    #[serde(with = "json", default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// What it expects of an image beyond the shape of a tensor, as TOML; empty where the configuration says
    /// all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// The factor of the configured step lengths that validation data chose; none where none was chosen.
    #[serde(with = "text", default, skip_serializing_if = "Option::is_none")]
    pub step_factor: Option<f64>,
    /// What else validation data taught, as TOML of the task's own; empty where nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub calibration: String,
    /// The network below it.
    #[serde(flatten)]
    pub base: Option<BaseNetwork>,
}

/// Numbers as the text of a metadata field.
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

/// Lists as the text of a metadata field.
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
    /// What the file at `path` says of itself. None where it says nothing: a file that was made elsewhere.
    ///
    /// # Errors
    /// [`Error::Nn`] when the file cannot be read, [`Error::File`] when it is of a later version or
    /// says something else than this crate writes.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        if path.extension().is_none_or(|extension| extension != "safetensors") {
            return Ok(None);
        }
        Self::parse(path, &import::metadata(path)?)
    }

    /// [`read`](Self::read) of `metadata` that were read from `path` before.
    ///
    /// # Errors
    /// [`Error::File`] as there.
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

    /// [`read`](Self::read) of a file that must say what it is: one for one of `tasks`, or for any where there are
    /// none of these.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); [`Error::File`] when the file says nothing, or is for another task.
    pub fn require(path: &Path, tasks: &[&str]) -> Result<Self> {
        let found = Self::read(path)?.ok_or_else(|| unsaid(path))?;
        if !tasks.is_empty() {
            found.check_task(path, tasks)?;
        }
        Ok(found)
    }

    /// Refuses the file at `path`, which says this, where a model for one of `tasks` is needed.
    ///
    /// # Errors
    /// [`Error::File`] with both.
    pub fn check_task(&self, path: &Path, tasks: &[&str]) -> Result<()> {
        if tasks.contains(&self.task.as_str()) {
            return Ok(());
        }
        Err(refusal(
            path,
            format!("it is a model for {}, and one for {} is needed", self.task, tasks.join(" or ")),
        ))
    }

    /// For the file.
    ///
    /// # Errors
    /// [`Error::File`] when a path is no text.
    pub fn to_metadata(&self) -> Result<Metadata> {
        let said = serde_json::to_value(self).and_then(serde_json::from_value::<Metadata>);
        let mut said = said.map_err(|error| refusal(Path::new("metadata"), error.to_string()))?;
        said.insert(VERSION.to_owned(), FORMAT_VERSION.to_string());
        Ok(said)
    }

    /// Writes `tensors` with this to the file at `path`, which appears whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written; see [`to_metadata`](Self::to_metadata).
    pub fn save(&self, path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        Ok(import::save_safetensors_with(path, tensors, &self.to_metadata()?)?)
    }

    /// Refuses annotations, called `annotations` in the message, in which a label has another name than in
    /// the classes of the file at `path`, which says this. Where the file names no classes, nothing is
    /// refused.
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

    /// Refuses the model at `path`, which says this, in the place of one that says `wanted`. Compared are
    /// `method`, `seed`, `base_digest` and every setting of the configuration by its dotted name, each where
    /// it `matters`.
    ///
    /// # Errors
    /// [`Error::File`] with both values of everything that differs, or when a configuration is no TOML.
    pub fn check_same(&self, path: &Path, wanted: &Self, matters: impl Fn(&str) -> bool) -> Result<()> {
        let [ours, theirs] = [self.settings(path)?, wanted.settings(path)?];
        let differences = settings::differences(&ours, &theirs, matters);
        if differences.is_empty() {
            return Ok(());
        }
        let remedy = "give the settings that it was trained with, or train another";
        Err(refusal(path, format!("the model was trained with {}; {remedy}", differences.join(", "))))
    }

    /// What is compared, by dotted name.
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

/// A file of trained weights that says what it is.
pub struct ModelFile {
    /// The place of the file.
    pub path: PathBuf,
    /// The metadata of the file.
    pub said: ModelMetadata,
    /// The tensors by name, as they are stored.
    pub tensors: BTreeMap<String, Tensor>,
}

impl ModelFile {
    /// The name of a model's file in the folder of a run.
    pub const NAME: &'static str = "model.safetensors";

    /// Returns `path`, or the model's file in it where it is the folder of a run.
    pub fn at(path: &Path) -> PathBuf {
        if path.is_dir() { path.join(Self::NAME) } else { path.to_owned() }
    }

    /// Reads the file [`at`](Self::at) `path` to the CPU.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(&WeightBytes::read(&Self::at(path))?, &Device::Cpu)
    }

    /// As [`open`](Self::open), of a file's bytes.
    ///
    /// # Errors
    /// [`Error::Nn`] when it cannot be read, [`Error::File`] when it does not say what it is.
    pub fn of(file: &WeightBytes<'_>, device: &Device) -> Result<Self> {
        let (tensors, said) = file.load(device)?;
        let path = file.path.clone();
        let said = ModelMetadata::parse(&path, &said)?.ok_or_else(|| unsaid(&path))?;
        Ok(Self { path, said, tensors })
    }

    /// Finds the file of the network below it; none where it names none.
    pub fn base_path(&self) -> Option<PathBuf> {
        Some(moved_with(&self.path, self.said.base.as_ref()?.file.as_ref()?))
    }

    /// Refuses a file of another network than the one below it, where [`BaseNetwork::digest`] is of the file.
    ///
    /// # Errors
    /// [`Error::File`] with both digests.
    pub fn check_base(&self, base: &WeightBytes<'_>) -> Result<()> {
        let (found, wanted) = (sha256(&base.bytes), self.said.base.as_ref().map(|base| &base.digest));
        match wanted.filter(|wanted| **wanted != found) {
            None => Ok(()),
            Some(wanted) => Err(refusal(
                &base.path,
                format!(
                    "SHA-256 {found} is not {wanted}, the network that {} was trained on; give its place",
                    self.path.display()
                ),
            )),
        }
    }
}

fn unsaid(path: &Path) -> Error {
    refusal(
        path,
        "it does not say what it is: it was made elsewhere; give one that was trained here".to_owned(),
    )
}

fn refusal(path: &Path, reason: String) -> Error {
    Error::File(path.to_owned(), reason)
}

/// SHA-256 in hexadecimal of a network's parameters in single precision, by name: the same whatever file they
/// came in.
///
/// # Errors
/// [`Error::Candle`] when a parameter cannot be read.
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

/// SHA-256 of a file, in hexadecimal.
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
