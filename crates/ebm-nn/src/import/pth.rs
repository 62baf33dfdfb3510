//! Files that are pickles: torch's `.pth`, in both of its formats, and numpy arrays in `.pkl`.
//!
//! No code is run; nested dictionaries are found, and nothing is skipped in silence.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};

use super::pickle::{Id, Pickle};
use super::tensor_spec::{Data, TensorSpec};
use super::zip::{self, Archive};
use super::{format_error, legacy, read};
use crate::{Error, Result};

/// Where checkpoints keep their parameters, in order of search, when not at the top.
const KEYS: [&str; 7] = ["state_dict", "model", "model_state_dict", "model_state", "net", "network", "blobs"];

/// The largest pickle in an archive that is read; that of a ResNet-50 takes 0.05 MB.
const MAX_PICKLE_BYTES: usize = 64 << 20;

/// How many times the file's size all its tensors may take: each that shares its values has its own copy.
const MAX_SHARING: usize = 8;

/// Reads the tensors of a `.pth` file that any torch since 0.2 saved, or of a `.pkl` file of numpy arrays:
/// those at the top of its dictionary, or else those under the first of the usual keys (`state_dict`,
/// `model`, …) that holds any.
///
/// # Errors
/// When the file cannot be read, is no such file, or holds no tensors in these places.
pub fn load_pth(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    from_bytes(path, &read(path)?, None, device)
}

/// [`load_pth`] for the dictionary under `key`; dots lead deeper (`"model.backbone"`).
///
/// # Errors
/// As [`load_pth`]; an unknown key is answered with the known ones.
pub fn load_pth_key(path: &Path, key: &str, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    from_bytes(path, &read(path)?, Some(key), device)
}

/// Whether `bytes` are a file of one of the kinds that are read here.
pub(super) fn is_pickled(bytes: &[u8]) -> bool {
    zip::is_zip(bytes) || is_pickle(bytes)
}

/// A pickle begins with its protocol. Such may be the length of a safetensors file's header too, behind which
/// a brace stands.
fn is_pickle(bytes: &[u8]) -> bool {
    let safetensors = matches!(bytes, [_, _, _, _, 0, 0, 0, 0, b'{', ..]);
    matches!(bytes, [0x80, 2..=5, _, ..]) && !safetensors
}

pub(super) fn from_bytes(
    path: &Path,
    bytes: &[u8],
    key: Option<&str>,
    device: &Device,
) -> Result<BTreeMap<String, Tensor>> {
    let refuse = |reason: String| format_error(path, reason);
    let (pickle, mut storages) = if zip::is_zip(bytes) {
        zipped(path, bytes)?
    } else if legacy::is_legacy(bytes) {
        let (pickle, storages) = legacy::read(bytes).map_err(refuse)?;
        (pickle, Storages::Listed(storages))
    } else if is_pickle(bytes) {
        (unpickle(path, bytes)?, Storages::Listed(BTreeMap::new()))
    } else {
        let reason = "not a torch .pth file (a zip archive or a pickle); is it complete?";
        return Err(format_error(path, reason));
    };
    let dictionary = select(path, &pickle, key)?;
    let mut budget = bytes.len().saturating_mul(MAX_SHARING);
    let mut tensors = BTreeMap::new();
    for &(name, value) in pickle.dictionary(dictionary).unwrap_or_default() {
        let (Some(name), Some(spec)) = (pickle.text(name), TensorSpec::parse(&pickle, value)) else {
            continue;
        };
        let refuse = |reason: String| format_error(path, format!("{name}: {reason}"));
        let spec = spec.map_err(refuse)?;
        let data = match &spec.data {
            Data::Inline(data) => data.as_ref(),
            Data::Storage(key) => storages.get(path, key)?,
        };
        tensors.insert(name.to_owned(), spec.tensor(data, &mut budget, device).map_err(refuse)?);
    }
    Ok(tensors)
}

/// The storages of a file.
enum Storages<'a> {
    /// Members of an archive.
    Members(Members<'a>),
    /// All of them by key.
    Listed(BTreeMap<String, &'a [u8]>),
}

/// The storages of an archive, each of which is verified once, however many tensors are views of it.
struct Members<'a> {
    archive: Archive<'a>,
    prefix: String,
    verified: BTreeMap<String, &'a [u8]>,
    /// How many more bytes are verified: as many as the file has, since its members do not overlap.
    left: usize,
}

impl<'a> Members<'a> {
    fn get(&mut self, path: &Path, key: &str) -> Result<&'a [u8]> {
        if let Some(data) = self.verified.get(key) {
            return Ok(data);
        }
        let data = self.archive.read(path, &format!("{}data/{key}", self.prefix))?;
        let overlap =
            || format_error(path, format!("storage {key} and those before it have more bytes than the file"));
        self.left = self.left.checked_sub(data.len()).ok_or_else(overlap)?;
        self.verified.insert(key.to_owned(), data);
        Ok(data)
    }
}

impl<'a> Storages<'a> {
    fn get(&mut self, path: &Path, key: &str) -> Result<&'a [u8]> {
        match self {
            Self::Members(members) => members.get(path, key),
            Self::Listed(storages) => {
                let missing = || format_error(path, format!("storage {key} is missing"));
                storages.get(key).copied().ok_or_else(missing)
            }
        }
    }
}

/// torch's format since 1.6: an archive of one pickle and one member per storage.
fn zipped<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Pickle<'a>, Storages<'a>)> {
    let archive = Archive::open(path, bytes)?;
    let Some(pickle) =
        archive.names().find(|n| *n == "data.pkl" || n.ends_with("/data.pkl")).map(str::to_owned)
    else {
        return Err(format_error(path, "a zip archive without torch's data.pkl"));
    };
    let prefix = pickle.trim_end_matches("data.pkl").to_owned();
    let code = [format!("{prefix}code"), format!("{prefix}code/")];
    if archive.names().any(|name| name == code[0] || name.starts_with(&code[1])) {
        let reason = "a TorchScript module; save its state_dict() with torch.save instead";
        return Err(format_error(path, reason));
    }
    let order = format!("{prefix}byteorder");
    if archive.names().any(|name| name == order) && archive.read(path, &order)? != b"little" {
        return Err(format_error(path, "the tensors were saved on a big-endian machine"));
    }
    let pickle = archive.read(path, &pickle)?;
    if pickle.len() > MAX_PICKLE_BYTES {
        let reason = format!("its pickle of {} bytes is larger than {MAX_PICKLE_BYTES}", pickle.len());
        return Err(format_error(path, reason));
    }
    let pickle = unpickle(path, pickle)?;
    let members = Members { archive, prefix, verified: BTreeMap::new(), left: bytes.len() };
    Ok((pickle, Storages::Members(members)))
}

fn unpickle<'a>(path: &Path, mut bytes: &'a [u8]) -> Result<Pickle<'a>> {
    Pickle::read(&mut bytes)
        .map_err(|reason| format_error(path, format!("its pickle cannot be read: {reason}")))
}

/// The dictionary of tensors: the one under `key`, or the root, or the one under a usual key.
fn select(path: &Path, pickle: &Pickle, key: Option<&str>) -> Result<Id> {
    let root = pickle.root();
    if pickle.dictionary(root).is_none() {
        let reason = "it holds no dictionary (a whole pickled module?); save model.state_dict() instead";
        return Err(format_error(path, reason));
    }
    if let Some(key) = key {
        return under_key(path, pickle, key);
    }
    if holds_tensors(pickle, root) {
        return Ok(root);
    }
    let mut usual = KEYS.iter().filter_map(|key| pickle.value(root, key));
    usual.find(|&value| holds_tensors(pickle, value)).ok_or_else(|| {
        let (keys, known) = (KEYS.join(", "), names(pickle, root));
        format_error(path, format!("no tensors at its top or under {keys}; give the key, one of: {known}"))
    })
}

fn under_key(path: &Path, pickle: &Pickle, key: &str) -> Result<Id> {
    let mut dictionary = pickle.root();
    for part in key.split('.') {
        let below = pickle.value(dictionary, part).filter(|&id| pickle.dictionary(id).is_some());
        dictionary = below.ok_or_else(|| -> Error {
            let known = names(pickle, dictionary);
            format_error(path, format!("no dictionary under {part:?} of {key:?}; known: {known}"))
        })?;
    }
    if holds_tensors(pickle, dictionary) {
        return Ok(dictionary);
    }
    let reason = format!("no tensors under {key:?}, only: {}", names(pickle, dictionary));
    Err(format_error(path, reason))
}

fn holds_tensors(pickle: &Pickle, dictionary: Id) -> bool {
    let entries = pickle.dictionary(dictionary).unwrap_or_default();
    entries.iter().any(|(_, value)| TensorSpec::parse(pickle, *value).is_some())
}

fn names(pickle: &Pickle, dictionary: Id) -> String {
    const SHOWN: usize = 12;
    let entries = pickle.dictionary(dictionary).unwrap_or_default();
    let names: Vec<_> = entries.iter().filter_map(|(name, _)| pickle.text(*name)).take(SHOWN).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
