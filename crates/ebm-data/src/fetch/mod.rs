//! Fetching datasets and weights from their publishers, and publishing weights; with `ebm-web` the only place
//! of the product that opens a socket.
//!
//! [`get`] brings all files of a [`Manifest`] into their places. **A file under its final name has been
//! verified**: it grows as `<name>.part` beside it, is hashed while it is written, and is renamed when its
//! hash and size are right. A download that breaks, or whose process is killed, goes on where it stopped, if
//! the server still has the same content (`<name>.part.meta` says which). `<name>.lock` keeps a second
//! process away.
//!
//! Where the publisher tells no hash, the first download is trusted and its hash recorded in `<name>.sha256`.
//! What cannot be fetched by a program is left to the user, with an instruction, and verified when it is
//! there.
//!
//! [`snapshot`] brings a model of the Hugging Face Hub into the cache that its programs share, and [`push`] a
//! model to the Hub.

mod address;
mod download;
mod error;
mod hash;
mod http;
mod hub;
mod lfs;
mod manifest;
mod part;
mod patience;
mod push;
mod snapshot;
mod space;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebm_files::{Lock, LockError};
use sha2::{Digest as _, Sha256};

pub use download::FetchOptions;
pub use error::{Error, Result};
pub use hash::{Pin, record_path, sha256_of};
pub(crate) use hash::{hex, update};
pub use hub::{Hub, HubFile};
pub use manifest::{Entry, Manifest, embedded};
pub use push::{Outgoing, Push, push};
pub use snapshot::{HubModel, snapshot};

/// What happens meanwhile.
#[derive(Debug)]
pub enum Event<'a> {
    /// An answer with the file, or its rest, has begun.
    Begin {
        /// The file.
        path: &'a Path,
        /// The address.
        url: &'a str,
        /// Bytes that are here already.
        done: u64,
        /// Bytes of the whole file, if known.
        total: Option<u64>,
    },
    /// A file, or a part of it, is being sent.
    Send {
        /// The file.
        path: &'a Path,
        /// Bytes that were sent before.
        done: u64,
        /// Bytes of the whole file.
        total: u64,
    },
    /// A file that is there is being read again.
    Verify {
        /// The file.
        path: &'a Path,
        /// Its bytes.
        total: u64,
    },
    /// So many bytes of the file are done.
    Advance {
        /// Bytes.
        done: u64,
    },
    /// The download, the sending or the verification is over, with or without success.
    End,
    /// An attempt failed and there will be another.
    Retry {
        /// Why.
        error: &'a Error,
        /// How long is waited.
        wait: Duration,
    },
}

/// Receives what happens.
pub type Report<'a> = &'a mut dyn FnMut(Event<'_>);

/// How a file of a manifest stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was there; its hash is as expected.
    Verified {
        /// SHA-256 in hexadecimal.
        sha256: String,
    },
    /// It was there, nobody publishes its hash, and its hash was recorded now.
    Recorded {
        /// SHA-256 in hexadecimal.
        sha256: String,
    },
    /// It was fetched now.
    Fetched {
        /// SHA-256 in hexadecimal.
        sha256: String,
        /// Whether the publisher tells no, or not the whole, hash, so that it was trusted and recorded.
        trusted: bool,
    },
    /// It came with the program and was written now.
    Written {
        /// SHA-256 in hexadecimal.
        sha256: String,
    },
    /// A folder that is there.
    Folder {
        /// Entries in it.
        entries: u64,
    },
    /// It is not there and was not to be fetched: see [`FetchOptions::offline`].
    Missing,
    /// It is not there, and has to be fetched by hand.
    ByHand {
        /// What to do.
        instruction: String,
    },
}

impl State {
    /// Whether the file is in its place.
    pub fn is_there(&self) -> bool {
        !matches!(self, Self::Missing | Self::ByHand { .. })
    }
}

/// A file of a manifest and how it stands.
#[derive(Clone, Debug)]
pub struct FileStatus {
    /// Where it is or belongs.
    pub path: PathBuf,
    /// How it stands.
    pub state: State,
}

/// Brings every file of `manifest` into its place under `dir`, or verifies the one that is there.
///
/// # Errors
/// Those of the first file that fails; files before it are in their places.
pub fn get(
    manifest: &Manifest,
    dir: &Path,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<Vec<FileStatus>> {
    manifest.files.iter().map(|entry| get_entry(entry, dir, options, report)).collect()
}

/// [`get`] for one file.
///
/// # Errors
/// [`Error::Locked`] at once if another process fetches it; every other [`enum@Error`] when it is not to be
/// had or wrong.
pub fn get_entry(
    entry: &Entry,
    dir: &Path,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<FileStatus> {
    let path = dir.join(&entry.path);
    let state = match present(entry, &path, report)? {
        Some(state) => state,
        None => match &entry.by_hand {
            Some(instruction) => State::ByHand { instruction: instruction.clone() },
            None if options.offline && entry.hub.is_none() => State::Missing,
            None => fetch(entry, &path, options, report)?,
        },
    };
    Ok(FileStatus { path, state })
}

fn fetch(entry: &Entry, path: &Path, options: &FetchOptions, report: Report<'_>) -> Result<State> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    let lock = take_lock(path)?;
    // The process that held the lock before may have finished the file.
    if let Some(state) = present(entry, path, report)? {
        return Ok(state);
    }
    let published = entry.pin();
    if let Some(name) = &entry.embedded {
        return written(name, path, &published);
    }
    // A first download that was recorded stays the measure of a later one.
    let recorded = hash::recorded(path).filter(|first| published.admits(first));
    let pin = recorded.map_or(published, Pin::Sha256);
    if let Some(source) = &entry.hub {
        let hub = options.hub.as_ref().ok_or_else(|| Error::Manifest {
            path: path.into(),
            detail: "comes from the Hugging Face Hub, whose cache has no place: set HF_HOME".into(),
        })?;
        return hub::fetch(entry, &pin, source, path, hub, options, report);
    }
    let target = download::Target {
        path,
        urls: &entry.urls,
        pin: &pin,
        size: entry.size,
        reserve: entry.unpacked_size,
        record: !pin.is_whole(),
        bearer: None,
    };
    let sha256 = download::download(&target, options, report);
    report(Event::End);
    drop(lock);
    Ok(State::Fetched { sha256: sha256?, trusted: !pin.is_whole() })
}

/// The program's own file of this name, which must be the one that is meant.
fn written(name: &str, path: &Path, pin: &Pin) -> Result<State> {
    let invalid = |detail: String| Error::Manifest { path: path.into(), detail };
    let packed = embedded::content(name).ok_or_else(|| invalid(format!("the program has no file {name}")))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).map_err(Error::io("unpack", path))?;
    let sha256 = hex(Sha256::new().chain_update(&bytes));
    if !pin.admits(&sha256) {
        return Err(invalid(format!(
            "the program's own {name} has SHA-256 {sha256}, not {}",
            pin.expected()
        )));
    }
    ebm_files::replace(path, &bytes, ebm_files::Durability::Atomic).map_err(Error::io("write", path))?;
    Ok(State::Written { sha256 })
}

/// Where the lock of whoever fetches `target` is.
fn lock_of(target: &Path) -> PathBuf {
    part::beside(target, "lock")
}

/// The right to fetch `target`, without waiting for it.
fn take_lock(target: &Path) -> Result<Lock> {
    let path = lock_of(target);
    Lock::take(&path).map_err(|error| match error {
        LockError::Held { holder } => Error::Locked { path: target.into(), holder },
        LockError::Io(source) => Error::io("lock", &path)(source),
    })
}

/// How the file or folder stands; `None` if there is none.
fn present(entry: &Entry, path: &Path, report: Report<'_>) -> Result<Option<State>> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::io("read", path))?,
    };
    if meta.is_dir() {
        return folder(entry, path).map(Some);
    }
    report(Event::Verify { path, total: meta.len() });
    let mut done = 0;
    let verified = hash::verify(path, &entry.pin(), entry.size, &mut |n| {
        done += n as u64;
        report(Event::Advance { done });
    });
    report(Event::End);
    let (sha256, new) = verified?;
    // What a kill between the renaming and the end has left. Taking a lock that nobody holds removes its
    // file.
    part::remove(path);
    if lock_of(path).exists() {
        drop(take_lock(path));
    }
    Ok(Some(if new { State::Recorded { sha256 } } else { State::Verified { sha256 } }))
}

fn folder(entry: &Entry, path: &Path) -> Result<State> {
    let wrong = |detail: String| Err(Error::Incomplete { path: path.into(), detail });
    if entry.by_hand.is_none() {
        return wrong("is a folder where a file is to be; move it away and run again".into());
    }
    let mut entries = 0;
    for entry in fs::read_dir(path).map_err(Error::io("list", path))? {
        entry.map_err(Error::io("list", path))?;
        entries += 1;
    }
    let least = entry.entries.unwrap_or(1);
    if entries < least {
        let instruction = entry.by_hand.as_deref().unwrap_or_default();
        return wrong(format!("holds {entries} files where at least {least} are expected: {instruction}"));
    }
    Ok(State::Folder { entries })
}
