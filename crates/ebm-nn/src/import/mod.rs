//! Tensors from files and to files, with an exact account of what fitted.
//!
//! Files are read whole, never mapped (a mapped file that shrinks kills the process), and no more than
//! [`MAX_FILE_BYTES`] of them.

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

use crate::{Error, Result};

/// The largest file that is read: 8 GiB.
pub const MAX_FILE_BYTES: u64 = 8 << 30;

/// The longest header of a safetensors file: 16 MiB, for some hundred thousand tensors. The format allows 100
/// MB, of which parsing makes several times as much.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// A file of weights, whole: of a folder, or of the program itself.
#[derive(Clone, Debug)]
pub struct WeightBytes<'a> {
    /// Where it is, or what errors call it.
    pub path: PathBuf,
    /// What it holds.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> WeightBytes<'a> {
    /// The file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or cannot be a file of weights.
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), bytes: read(path)?.into() })
    }

    /// `bytes` that the program holds, called `name`.
    pub fn embedded(name: &str, bytes: &'a [u8]) -> Self {
        Self { path: name.into(), bytes: bytes.into() }
    }

    /// The tensors, as [`load`] has them, and the free-form metadata of a safetensors file, which other files have
    /// none of.
    ///
    /// # Errors
    /// As [`load`].
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

/// Reads the tensors of `path`, a safetensors file or a `.pth` that any torch since 0.2 saved, told apart by their
/// content. Of a `.pth` these are the tensors at the top of its dictionary, or else those under the first of the
/// usual keys (`state_dict`, `model`, …) that holds any; no code of it is run.
///
/// A tensor `t` of type `I8` in a safetensors file is 8-bit fixed point: it becomes `f32` with the values
/// `t · 2^-frac`, where `frac` is the integer that the file's metadata holds under `<name>.frac`.
///
/// # Errors
/// When the file cannot be read or is neither, lacks a usable `frac`, or holds a number that is not finite.
pub fn load(path: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    Ok(WeightBytes::read(path)?.load(device)?.0)
}

/// Whether all numbers of a tensor on the CPU are finite. What predicts with others predicts nothing, often
/// without a word.
fn is_finite(tensor: &Tensor) -> Result<bool> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cpu(storage), Some((start, end))) = (&*storage, layout.contiguous_offsets()) else {
        return Ok(true);
    };
    // Without a way out of the loop it is computed several numbers at a time.
    Ok(match storage {
        CpuStorage::F32(numbers) => numbers[start..end].iter().fold(true, |all, x| all & x.is_finite()),
        CpuStorage::F64(numbers) => numbers[start..end].iter().fold(true, |all, x| all & x.is_finite()),
        CpuStorage::F16(numbers) => numbers[start..end].iter().all(|x| x.is_finite()),
        CpuStorage::BF16(numbers) => numbers[start..end].iter().all(|x| x.is_finite()),
        _ => true,
    })
}

/// Renames tensors: `name` becomes `rename(name)`, and a tensor whose new name is `None` is dropped.
///
/// # Errors
/// When two tensors would get the same name.
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
    /// The bytes that tell the format, and of a safetensors file the length of its header.
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
    // What is neither torch's nor can be safetensors is refused before the rest is read.
    if let Some(header) = bytes.first_chunk().filter(|_| !pth::is_pth(&bytes)) {
        let (header, limit) = (u64::from_le_bytes(*header), MAX_HEADER_BYTES.min(length.saturating_sub(8)));
        if header > limit {
            let reason = format!(
                "not a complete safetensors file (its header would have {header} bytes, of at most {limit}); download or save it again"
            );
            return Err(format_error(path, reason));
        }
    }
    // The length may be a lie (a pipe, a growing file), so the limit holds for the reading as well.
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

fn format_error(path: &Path, reason: impl Into<String>) -> Error {
    Error::Format { path: path.to_owned(), reason: reason.into() }
}
