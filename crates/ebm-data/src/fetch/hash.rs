//! SHA-256 of files: what is expected, and the record of a first download.
//!
//! What is expected are the first digits, as far as they are published: all 64, those that torchvision puts into its
//! file names, or none. With fewer than 64 the first download is trusted, and recorded.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ebm_files::{Durability, open_input, read_limited, replace};
use sha2::{Digest, Sha256};

use super::{State, at};
use crate::error::{Error, Result};

/// Hexadecimal digits of a finished hash.
pub(crate) fn hex(hash: impl Digest) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read.
pub fn sha256_of(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let read = open_input(path).and_then(|mut file| io::copy(&mut file, &mut hash));
    read.map(|_| hex(hash)).map_err(at("read", path))
}

/// `<path>.<suffix>`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The hash that a first download left in `<file>.sha256`, in the form of `sha256sum`; `None` without a record, or
/// with one that a crash cut short.
pub(super) fn recorded(path: &Path) -> Option<String> {
    let text = String::from_utf8(read_limited(&beside(path, "sha256"), 1 << 16).ok()?).ok()?;
    text.split_whitespace().next().filter(|hash| is_hex(hash, 64)).map(str::to_owned)
}

pub(super) fn record(path: &Path, sha256: &str) -> Result<()> {
    let record = beside(path, "sha256");
    let line = format!("{sha256}  {}\n", path.file_name().unwrap_or_default().display());
    replace(&record, line.as_bytes(), Durability::Atomic).map_err(at("write", &record))
}

/// Whether `text` is `digits` lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Verifies a file that is in its place: the size, the hash, and the record of its first download.
pub(super) fn verify(path: &Path, expected: &str, size: Option<u64>) -> Result<State> {
    let wrong = |detail| Err(Error::Fetched(path.into(), format!("{detail}; move it away and run again")));
    let actual = fs::metadata(path).map_err(at("read", path))?.len();
    if let Some(stated) = size.filter(|&size| size != actual) {
        return wrong(format!("the file has {actual} bytes where {stated} are stated"));
    }
    let sha256 = sha256_of(path)?;
    let first = recorded(path);
    if !sha256.starts_with(expected) {
        return wrong(format!("the file has SHA-256 {sha256} where {expected} is expected"));
    }
    match first.filter(|_| expected.len() < 64) {
        Some(first) if first != sha256 => {
            wrong(format!("the file has SHA-256 {sha256}, and {first} was recorded beside it"))
        }
        None if expected.len() < 64 => {
            record(path, &sha256)?;
            Ok(State::There("there; nobody publishes all of a hash, this one is recorded beside it", sha256))
        }
        _ => Ok(State::There("verified", sha256)),
    }
}
