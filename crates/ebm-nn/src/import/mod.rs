//! Reading and writing of tensors in files, with a report of the differences to a network.
//!
//! Files are read whole and not mapped, because a mapped file that shrinks kills the process. A file may have at
//! most [`MAX_FILE_BYTES`].

mod legacy;
mod pickle;
mod pth;
mod report;
mod tensor_spec;
mod tensors;
mod zip;

pub use report::{LoadPolicy, LoadReport, first_of};
pub use tensors::{
    halve, load_safetensors, metadata, save_safetensors, save_safetensors_with, to_safetensors,
};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use candle_core::{CpuStorage, Device, Storage, Tensor};
use safetensors::tensor::Metadata;

use crate::{Error, Result};

/// Size of the largest file that is read: 8 GiB.
pub const MAX_FILE_BYTES: u64 = 8 << 30;

/// Length of the longest safetensors header that is read: 16 MiB, for some hundred thousand tensors. The format
/// allows 100 MB, and parsing takes several times that memory.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// Content of a weights file, from a folder or from the program itself.
#[derive(Clone, Debug)]
pub struct WeightBytes<'a> {
    /// Path of the file, or its name in errors.
    pub path: PathBuf,
    /// Content of the file.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> WeightBytes<'a> {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a file of weights.
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), bytes: read(path)?.into() })
    }

    /// Wraps `bytes` that are part of the program, with a `name` for errors.
    pub fn embedded(name: &str, bytes: &'a [u8]) -> Self {
        Self { path: name.into(), bytes: bytes.into() }
    }

    /// Returns the tensors like [`load`], and the free-form metadata of a safetensors file, which is empty for
    /// other files.
    ///
    /// # Errors
    /// The errors of [`load`].
    pub fn load(&self, device: &Device) -> Result<(BTreeMap<String, Tensor>, BTreeMap<String, String>)> {
        let (path, bytes) = (&self.path, &*self.bytes);
        let (mut tensors, metadata) = if pth::is_pth(bytes) {
            let read = pth::read(bytes, &Device::Cpu).map_err(|reason| format_error(path, reason));
            (read?, BTreeMap::new())
        } else {
            (tensors::from_bytes(path, bytes, &Device::Cpu)?, tensors::header(path, bytes)?)
        };
        for (name, tensor) in &mut tensors {
            if !is_finite(tensor)? {
                let reason = format!("{name} holds numbers that are not finite; take an earlier file");
                return Err(format_error(path, reason));
            }
            *tensor = tensor.to_device(device)?;
        }
        Ok((tensors, metadata))
    }
}

/// Reads the tensors of `path`, a safetensors file or a `.pth` file of any torch since 0.2; the content tells the
/// format. In a `.pth` file these are the tensors at the top of its dictionary, or else under the first of the
/// usual keys (`state_dict`, `model`, …) that has any. No code in the file is run.
///
/// A tensor `t` of type `I8` in a safetensors file is 8-bit fixed point. It becomes `f32` with the values
/// `t · 2^-frac`, where `frac` is the integer under `<name>.frac` in the file's metadata.
///
/// # Errors
/// If the file cannot be read, has neither format, lacks a usable `frac`, or holds a number that is not finite.
pub fn load(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    Ok(WeightBytes::read(path)?.load(device)?.0)
}

/// Returns whether all numbers of a tensor on the CPU are finite. A network with other numbers predicts nothing,
/// often without an error.
fn is_finite(tensor: &Tensor) -> Result<bool> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cpu(storage), Some((start, end))) = (&*storage, layout.contiguous_offsets()) else {
        return Ok(true);
    };
    // A loop without an early exit handles several numbers at a time.
    Ok(match storage {
        CpuStorage::F32(numbers) => numbers[start..end].iter().fold(true, |all, x| all & x.is_finite()),
        CpuStorage::F64(numbers) => numbers[start..end].iter().fold(true, |all, x| all & x.is_finite()),
        CpuStorage::F16(numbers) => numbers[start..end].iter().all(|x| x.is_finite()),
        CpuStorage::BF16(numbers) => numbers[start..end].iter().all(|x| x.is_finite()),
        _ => true,
    })
}

/// Renames tensors: `name` becomes `rename(name)`, and a tensor is dropped if its new name is `None`.
///
/// # Errors
/// If two tensors would get the same name.
pub fn rename(
    tensors: BTreeMap<String, Tensor>,
    rename: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, Tensor>> {
    let mut renamed = BTreeMap::new();
    for (name, tensor) in tensors {
        let Some(new) = rename(&name) else { continue };
        if renamed.contains_key(&new) {
            let reason = format!("two tensors would be named {new}, one of them {name}");
            return Err(Error::Argument { op: "import::rename", reason });
        }
        renamed.insert(new, tensor);
    }
    Ok(renamed)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    /// Number of bytes that tell the format and, for safetensors, the length of the header.
    const HEAD: u64 = 16;
    let io = |source| Error::Io { path: path.to_owned(), source };
    let file = ebm_base::files::open_input(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length > MAX_FILE_BYTES {
        let reason = format!("{length} bytes are more than the limit of {MAX_FILE_BYTES}");
        return Err(format_error(path, reason));
    }
    let mut bytes = Vec::new();
    (&file).take(HEAD).read_to_end(&mut bytes).map_err(io)?;
    // A file that cannot have one of the formats is refused before the rest is read.
    if let Some(header) = bytes.first_chunk().filter(|_| !pth::is_pth(&bytes)) {
        let (header, limit) = (u64::from_le_bytes(*header), MAX_HEADER_BYTES.min(length.saturating_sub(8)));
        if !(1..=limit).contains(&header) {
            let reason = format!(
                "not a complete safetensors file (its header would have {header} bytes, of 1 to {limit}); download or save it again"
            );
            return Err(format_error(path, reason));
        }
        (&file).take((8 + header).saturating_sub(HEAD)).read_to_end(&mut bytes).map_err(io)?;
        let said = bytes.get(8..8 + header as usize).map(serde_json::from_slice::<Metadata>);
        let Some(Ok(said)) = said else {
            // Whoever parses it says why.
            return Ok(bytes);
        };
        let whole = (8 + header).saturating_add(said.data_len() as u64);
        if whole < length {
            let reason =
                format!("{length} bytes, of which its header describes {whole}; download or save it again");
            return Err(format_error(path, reason));
        }
    }
    // The length may be wrong (a pipe, a growing file), so the limit also holds for the reading.
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

fn format_error(path: &Path, reason: impl Into<String>) -> Error {
    Error::Format { path: path.to_owned(), reason: reason.into() }
}
