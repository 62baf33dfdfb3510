//! SHA-256 of files: what is expected, and the record of a first download.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ebm_files::{Durability, open_input, read_limited, replace};
use sha2::{Digest, Sha256};

use super::error::{Error, Result};
use super::part::beside;

/// Bytes read at once.
pub(super) const BUFFER: usize = 1 << 16;
/// More than any record of a hash has, in bytes.
const RECORD_LIMIT: u64 = 1 << 16;

/// What is known of a file's SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// All 64 hexadecimal digits.
    Sha256(String),
    /// The first digits, as torchvision puts them into its file names.
    Prefix(String),
    /// Nothing: the first download is trusted, and recorded.
    FirstUse,
}

impl Pin {
    /// Whether a file with this hash is the one that is meant, as far as this tells.
    pub fn admits(&self, sha256: &str) -> bool {
        match self {
            Self::Sha256(whole) => whole == sha256,
            Self::Prefix(first) => sha256.starts_with(first.as_str()),
            Self::FirstUse => true,
        }
    }

    /// What is expected, for messages.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Sha256(whole) => whole.clone(),
            Self::Prefix(first) => format!("{first}…"),
            Self::FirstUse => "any".into(),
        }
    }

    /// Whether it decides alone, so that nothing has to be recorded.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Sha256(_))
    }
}

/// Hexadecimal digits of a finished hash.
pub(crate) fn hex(hash: impl Digest) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds all that `reader` has left to `hash`, and tells each step's number of bytes.
pub(crate) fn update(
    hash: &mut impl Digest,
    reader: &mut impl Read,
    step: &mut dyn FnMut(usize),
) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                hash.update(&buffer[..n]);
                step(n);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read.
pub fn sha256_of(path: &Path, step: &mut dyn FnMut(usize)) -> Result<String> {
    let mut file = open_input(path).map_err(Error::io("read", path))?;
    let mut hash = Sha256::new();
    update(&mut hash, &mut file, step).map_err(Error::io("read", path))?;
    Ok(hex(hash))
}

/// Where the hash of a first download is recorded: `<file>.sha256`, in the form of `sha256sum`.
pub fn record_path(path: &Path) -> PathBuf {
    beside(path, "sha256")
}

/// The recorded hash; `None` without a record, or with one that a crash cut short.
pub(super) fn recorded(path: &Path) -> Option<String> {
    let text = String::from_utf8(read_limited(&record_path(path), RECORD_LIMIT).ok()?).ok()?;
    let hash = text.split_whitespace().next()?;
    is_hex(hash, 64).then(|| hash.to_owned())
}

pub(super) fn record(path: &Path, sha256: &str) -> Result<()> {
    let record = record_path(path);
    let name = path.file_name().unwrap_or_default().display();
    let line = format!("{sha256}  {name}\n");
    replace(&record, line.as_bytes(), Durability::Atomic).map_err(Error::io("write", &record))
}

/// Whether `text` is `digits` lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Verifies a file that is in its place: the size, the pin, and the record of its first download. Returns its
/// hash, and whether it was recorded now.
pub(super) fn verify(
    path: &Path,
    pin: &Pin,
    size: Option<u64>,
    step: &mut dyn FnMut(usize),
) -> Result<(String, bool)> {
    let origin = || "the file".to_owned();
    let actual = fs::metadata(path).map_err(Error::io("read", path))?.len();
    if let Some(expected) = size.filter(|&size| size != actual) {
        return Err(Error::Size { path: path.into(), origin: origin(), expected, actual });
    }
    let sha256 = sha256_of(path, step)?;
    let wrong = |expected, remedy| {
        Err(Error::WrongHash {
            path: path.into(),
            origin: origin(),
            expected,
            actual: sha256.clone(),
            remedy,
        })
    };
    if !pin.admits(&sha256) {
        return wrong(pin.expected(), "move the file away and run again");
    }
    if pin.is_whole() {
        return Ok((sha256, false));
    }
    match recorded(path) {
        Some(first) if first == sha256 => Ok((sha256, false)),
        Some(first) => {
            wrong(first, "it has changed since its hash was recorded beside it: move both away and run again")
        }
        None => record(path, &sha256).map(|()| (sha256, true)),
    }
}
