//! Downloads of datasets and weights from their publishers. Only this module and `ebm-web` open sockets.
//!
//! [`get_entry`] brings a file of a [`Manifest`] into its place. **A file under its final name has been
//! verified.** It is downloaded to `<name>.part` beside it, hashed when it is complete, and renamed when its hash
//! and size are right. If its hash is published, a download that breaks, or whose process is killed, continues
//! where it stopped. `<name>.lock` keeps a second process away.
//!
//! If the publisher states no hash, or only its first digits, the download is checked only as far as that. Files
//! that a program cannot fetch are left to the user, with an instruction, and verified once they exist.
//!
//! [`snapshot`] brings a model of the Hugging Face Hub into the cache that its programs share. The Hub's own
//! program publishes a model: `hf upload OWNER/NAME FOLDER`.

mod download;
mod hub;
mod manifest;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use ebm_base::files::{Lock, LockError, open_input};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::files::write_atomic;
use download::{Target, beside};

pub use download::FetchOptions;
pub use hub::{Hub, HubModel, snapshot};
pub use manifest::{Entry, Manifest, embedded};

/// Event of a download.
#[derive(Debug)]
pub enum Event<'a> {
    /// An answer with the file, or the rest of it, has begun.
    Begin {
        /// Path of the file.
        path: &'a Path,
        /// Number of bytes received before.
        done: u64,
        /// Size of the whole file in bytes, if known.
        total: Option<u64>,
    },
    /// Number of bytes of the file that have been received.
    Advance(u64),
    /// The answer has ended, with or without success.
    End,
    /// An attempt failed. Another attempt follows after this time.
    Retry(&'a Error, Duration),
}

/// Receiver of events.
pub type Report<'a> = &'a mut dyn FnMut(Event<'_>);

/// State of a file of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The file is in its place, for this reason and with this SHA-256 in hexadecimal.
    There(&'static str, String),
    /// The entry is a folder with this number of entries.
    Folder(u64),
    /// The file is missing. The text says what to do by hand; `None` if fetching was disabled.
    Missing(Option<String>),
}

/// Brings a file of a manifest into its place below `dir`, or verifies it if it exists. Returns its path and state.
///
/// # Errors
/// [`Error::Failure`] at once if another process fetches it; [`Error::Network`] and [`Error::Failure`] if it
/// cannot be fetched; [`Error::Data`] if its content is wrong; [`Error::Io`].
pub fn get_entry(
    entry: &Entry,
    dir: &Path,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<(PathBuf, State)> {
    let path = dir.join(&entry.path);
    let state = match check_existing(entry, &path)? {
        Some(state) => state,
        None if options.offline || entry.by_hand.is_some() => State::Missing(entry.by_hand.clone()),
        None => fetch(entry, &path, options, report)?,
    };
    Ok((path, state))
}

fn fetch(entry: &Entry, path: &Path, options: &FetchOptions, report: Report<'_>) -> Result<State> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io_error("create", folder))?;
    }
    let _lock = take_lock(path)?;
    // The process that held the lock before may have completed the file.
    if let Some(state) = check_existing(entry, path)? {
        return Ok(state);
    }
    if let Some(name) = &entry.embedded {
        return write_embedded(name, path, &entry.sha256);
    }
    let (url, sha256) = (entry.url.as_deref().unwrap_or_default(), entry.sha256.as_str());
    let target = Target { path, url, sha256, size: entry.size, bearer: None };
    let said = if sha256.len() == 64 {
        "fetched and verified"
    } else {
        "fetched and trusted; no complete hash is published"
    };
    Ok(State::There(said, target.fetch(options, report)?))
}

/// Writes the program's own file `name` after a check of its hash.
fn write_embedded(name: &str, path: &Path, sha256: &str) -> Result<State> {
    let missing = || Error::Data(path.into(), format!("the program has no file {name}"));
    let mut bytes = Vec::new();
    let packed = embedded::content(name).ok_or_else(missing)?;
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).map_err(io_error("unpack", path))?;
    let found = hex(Sha256::digest(&bytes));
    if !found.starts_with(sha256) {
        let detail = format!("the program's own file has SHA-256 {found} where {sha256} is expected");
        return Err(Error::Data(path.into(), detail));
    }
    write_atomic(path, &bytes)?;
    Ok(State::There("written", found))
}

/// Takes the lock of `target` without waiting for it.
fn take_lock(target: &Path) -> Result<Lock> {
    let path = beside(target, "lock");
    Lock::take(&path).map_err(|error| match error {
        LockError::Io(source) => Error::io("lock", &path, source),
        LockError::Held { holder } => {
            let detail = format!("process {holder} is writing here; wait until it has ended and run again");
            Error::Failure(target.to_owned(), detail)
        }
    })
}

/// Verifies an existing file or folder and returns its state; `None` if it does not exist.
fn check_existing(entry: &Entry, path: &Path) -> Result<Option<State>> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io_error("read", path))?,
    };
    let wrong = |detail| Err(Error::Data(path.into(), detail));
    if !meta.is_dir() {
        let (actual, expected) = (meta.len(), entry.sha256.as_str());
        let advice = "move it away and run again";
        if let Some(stated) = entry.size.filter(|&size| size != actual) {
            return wrong(format!("the file has {actual} bytes where {stated} are stated; {advice}"));
        }
        let sha256 = sha256_of(path)?;
        if !sha256.starts_with(expected) {
            return wrong(format!("the file has SHA-256 {sha256} where {expected} is expected; {advice}"));
        }
        let said = if expected.len() == 64 { "verified" } else { "there; no complete hash is published" };
        return Ok(Some(State::There(said, sha256)));
    }
    let Some(instruction) = &entry.by_hand else {
        return wrong("is a folder where a file is to be; move it away and run again".into());
    };
    let entries = fs::read_dir(path).map_err(io_error("list", path))?.count() as u64;
    let least = entry.entries.unwrap_or(1);
    if entries < least {
        return wrong(format!("holds {entries} files where at least {least} are expected: {instruction}"));
    }
    Ok(Some(State::Folder(entries)))
}

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read.
pub fn sha256_of(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let read = open_input(path).and_then(|mut file| io::copy(&mut file, &mut hash));
    read.map(|_| hex(hash.finalize())).map_err(io_error("read", path))
}

/// Returns whether `text` consists of `digits` lower-case hexadecimal digits.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the conversion to [`Error::Io`] of an error in the `action` on `path`.
fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::io(action, path, source)
}
