//! Safetensors files, with 8-bit fixed point.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::safetensors::Load;
use candle_core::{DType, Device, Tensor};
use ebm_base::files::Durability;
use safetensors::{Dtype, SafeTensors};

use super::{format_error, read};
use crate::{Error, Result};

/// Reads the tensors of a safetensors file to `device`, like [`load`](super::load) but without a check for finite
/// numbers.
///
/// # Errors
/// If the file cannot be read, is not safetensors, or holds a type that candle lacks.
pub fn load_safetensors(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    from_bytes(path, &read(path)?, device)
}

/// Reads the free-form metadata of a safetensors file.
///
/// # Errors
/// If the file cannot be read or is not safetensors.
pub fn metadata(path: &Path) -> Result<BTreeMap<String, String>> {
    let bytes = read(path)?;
    // The file must be complete even if no tensor is read.
    parse(path, &bytes)?;
    header(path, &bytes)
}

/// Returns the tensors of a file's `bytes`, including fixed-point ones.
pub(super) fn from_bytes(path: &Path, bytes: &[u8], device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let (file, metadata) = (parse(path, bytes)?, header(path, bytes)?);
    let load = |(name, view): (&str, safetensors::tensor::TensorView)| {
        let tensor = if view.dtype() == Dtype::I8 {
            let scale = scale(path, name, &metadata)?;
            let values = view.data().iter().map(|&byte| f32::from(byte.cast_signed()) * scale).collect();
            Tensor::from_vec(values, view.shape(), device)
        } else {
            view.load(device)
        };
        Ok((name.to_owned(), tensor.map_err(|error| format_error(path, format!("{name}: {error}")))?))
    };
    file.iter().map(load).collect()
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>> {
    SafeTensors::deserialize(bytes).map_err(|error| not_safetensors(path, error))
}

pub(super) fn header(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, String>> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| not_safetensors(path, error))?;
    Ok(header.metadata().iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn not_safetensors(path: &Path, error: safetensors::SafeTensorError) -> Error {
    let reason = "download or save it again; docs/weights.md says how to convert other files";
    format_error(path, format!("not a complete safetensors file ({error}); {reason}"))
}

/// Returns 2^-frac, which is exact in `f32` for the allowed range.
fn scale(path: &Path, name: &str, metadata: &BTreeMap<String, String>) -> Result<f32> {
    let key = format!("{name}.frac");
    let Some(text) = metadata.get(&key) else {
        return Err(format_error(path, format!("{name} is of type I8 and the metadata lacks {key}")));
    };
    match text.parse::<i32>() {
        Ok(frac) if frac.abs() <= 100 => Ok(2f32.powi(-frac)),
        _ => Err(format_error(path, format!("{key} is {text:?} and not an integer from -100 to 100"))),
    }
}

/// Converts `tensors` to the safetensors format. Equal tensors give equal bytes.
///
/// # Errors
/// If a tensor cannot be read from its device, or the format lacks its type.
pub fn to_safetensors(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<u8>> {
    serialize(tensors, &BTreeMap::new())
}

fn serialize(tensors: &BTreeMap<String, Tensor>, metadata: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let bytes = safetensors::serialize(tensors, None)
        .map_err(|error| Error::Argument { op: "import::to_safetensors", reason: error.to_string() })?;
    Ok(if metadata.is_empty() { bytes } else { with_metadata(&bytes, metadata) })
}

/// Adds `metadata` to the file `bytes`, in name order. The library keeps metadata in a hash map and would write
/// them in another order in every run.
fn with_metadata(bytes: &[u8], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    // The file is a length of 8 bytes, a JSON object padded with blanks to a multiple of 8, and the data.
    let length = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length)) as usize;
    let (header, data) = bytes[8..].split_at(length);
    let entries = header[1..].trim_ascii_end();
    let pairs: Vec<String> =
        metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
    let mut header = format!("{{\"__metadata__\":{{{}}}", pairs.join(",")).into_bytes();
    if entries != b"}" {
        header.push(b',');
    }
    header.extend_from_slice(entries);
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes()[..], &header, data].concat()
}

/// Returns `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Converts single to half precision, which has half the size and three digits.
///
/// # Errors
/// If memory runs out.
pub fn halve(tensors: &mut BTreeMap<String, Tensor>) -> Result<()> {
    for tensor in tensors.values_mut().filter(|tensor| tensor.dtype() == DType::F32) {
        *tensor = tensor.to_dtype(DType::F16)?;
    }
    Ok(())
}

/// Writes `tensors` to the safetensors file `path`. A file beside it is written and renamed, so that `path` is
/// never half written.
///
/// # Errors
/// If the file cannot be written; the old file then stays.
pub fn save_safetensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    save_safetensors_with(path, tensors, &BTreeMap::new())
}

/// Writes a file like [`save_safetensors`], with free-form `metadata`, which [`metadata`] reads.
///
/// # Errors
/// The errors of [`save_safetensors`].
pub fn save_safetensors_with(
    path: &Path,
    tensors: &BTreeMap<String, Tensor>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let bytes = serialize(tensors, metadata)?;
    if path.file_name().is_none() {
        return Err(format_error(path, "not the name of a file"));
    }
    let written = ebm_base::files::replace(path, &bytes, Durability::Synced);
    written.map_err(|source| Error::Io { path: path.to_owned(), source })
}
