//! SHA-256 of files: what is expected, and the record of a first download.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ebm_files::{Durability, open_input, read_limited, replace};
use sha2::{Digest, Sha256};

use super::error::{Error, Result};

/// The first hexadecimal digits of a file's SHA-256, as far as they are published: all 64, those that torchvision puts
/// into its file names, or none. With fewer than 64 the first download is trusted, and recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin(pub String);

impl Pin {
    /// Whether a file with this hash is the one that is meant, as far as this tells.
    pub fn admits(&self, sha256: &str) -> bool {
        sha256.starts_with(&self.0)
    }

    /// Whether it decides alone, so that nothing has to be recorded.
    pub fn is_whole(&self) -> bool {
        self.0.len() == 64
    }

    /// What is wrong with the content of `origin`, whose hash is `actual`.
    pub(super) fn complaint(&self, origin: &str, actual: &str, remedy: &str) -> String {
        let more = if self.is_whole() { "" } else { "…" };
        format!("{origin} has SHA-256 {actual} where {}{more} is expected; {remedy}", self.0)
    }
}

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
    read.map(|_| hex(hash)).map_err(Error::io("read", path))
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
    replace(&record, line.as_bytes(), Durability::Atomic).map_err(Error::io("write", &record))
}

/// Whether `text` is `digits` lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Verifies a file that is in its place: the size, the pin, and the record of its first download. Returns its
/// hash, and whether it was recorded now.
pub(super) fn verify(path: &Path, pin: &Pin, size: Option<u64>) -> Result<(String, bool)> {
    let wrong = |detail| Err(Error::Wrong(path.into(), detail));
    let actual = fs::metadata(path).map_err(Error::io("read", path))?.len();
    if let Some(stated) = size.filter(|&size| size != actual) {
        return wrong(format!(
            "the file has {actual} bytes where {stated} are stated; move it away and run again"
        ));
    }
    let sha256 = sha256_of(path)?;
    if !pin.admits(&sha256) {
        return wrong(pin.complaint("the file", &sha256, "move it away and run again"));
    }
    match recorded(path).filter(|_| !pin.is_whole()) {
        Some(first) if first != sha256 => wrong(Pin(first).complaint(
            "the file",
            &sha256,
            "it has changed since its hash was recorded beside it: move both away and run again",
        )),
        None if !pin.is_whole() => record(path, &sha256).map(|()| (sha256, true)),
        _ => Ok((sha256, false)),
    }
}
