//! Fetching datasets and weights from their publishers; with `ebm-web` the only place of the product that opens a
//! socket.
//!
//! [`get_entry`] brings a file of a [`Manifest`] into its place. **A file under its final name has been
//! verified**: it grows as `<name>.part` beside it, is hashed when it is whole, and is renamed when its
//! hash and size are right. A download that breaks, or whose process is killed, goes on where it stopped, if its
//! hash is published. `<name>.lock` keeps a second process away.
//!
//! Where the publisher tells no hash, the first download is trusted and its hash recorded in `<name>.sha256`.
//! What cannot be fetched by a program is left to the user, with an instruction, and verified when it is
//! there.
//!
//! [`snapshot`] brings a model of the Hugging Face Hub into the cache that its programs share. The Hub's own program
//! publishes one: `hf upload OWNER/NAME FOLDER`.

mod download;
mod error;
mod hash;
mod hub;
mod manifest;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebm_files::{Durability, Lock, LockError};
use sha2::{Digest as _, Sha256};

pub use download::FetchOptions;
pub use error::{Error, Result};
pub(crate) use hash::hex;
pub use hash::{Pin, sha256_of};
pub use hub::{Hub, HubModel, snapshot};
pub use manifest::{Entry, Manifest, embedded};

/// What happens meanwhile.
#[derive(Debug)]
pub enum Event<'a> {
    /// An answer with the file, or its rest, has begun.
    Begin {
        /// The file.
        path: &'a Path,
        /// Bytes that are done already.
        done: u64,
        /// Bytes of the whole file, if known.
        total: Option<u64>,
    },
    /// So many bytes of the file are done.
    Advance(u64),
    /// The answer is over, with or without success.
    End,
    /// An attempt failed and there will be another after this time.
    Retry(&'a Error, Duration),
}

/// Receives what happens.
pub type Report<'a> = &'a mut dyn FnMut(Event<'_>);

/// How a file of a manifest stands; with its SHA-256 in hexadecimal where it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was there; its hash is as expected.
    Verified(String),
    /// It was there, nobody publishes its hash, and its hash was recorded now.
    Recorded(String),
    /// It was fetched now and has the publisher's hash.
    Fetched(String),
    /// It was fetched now; the publisher tells no, or not the whole, hash, so that it was trusted and recorded.
    Trusted(String),
    /// It came with the program and was written now.
    Written(String),
    /// A folder that is there, with so many entries.
    Folder(u64),
    /// It is not there and was not to be fetched: see [`FetchOptions::offline`].
    Missing,
    /// It is not there, and has to be fetched by hand: what to do.
    ByHand(String),
}

impl State {
    /// Whether the file is in its place.
    pub fn is_there(&self) -> bool {
        !matches!(self, Self::Missing | Self::ByHand(_))
    }
}

/// Brings a file of a manifest into its place under `dir`, or verifies the one that is there; its path, and how it
/// stands.
///
/// # Errors
/// [`Error::Locked`] at once if another process fetches it; every other [`enum@Error`] when it is not to be
/// had or wrong.
pub fn get_entry(
    entry: &Entry,
    dir: &Path,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<(PathBuf, State)> {
    let path = dir.join(&entry.path);
    let state = match present(entry, &path)? {
        Some(state) => state,
        None => match &entry.by_hand {
            Some(instruction) => State::ByHand(instruction.clone()),
            None if options.offline && entry.hub.is_none() => State::Missing,
            None => fetch(entry, &path, options, report)?,
        },
    };
    Ok((path, state))
}

fn fetch(entry: &Entry, path: &Path, options: &FetchOptions, report: Report<'_>) -> Result<State> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    let _lock = take_lock(path)?;
    // The process that held the lock before may have finished the file.
    if let Some(state) = present(entry, path)? {
        return Ok(state);
    }
    let published = entry.pin();
    if let Some(name) = &entry.embedded {
        return written(name, path, &published);
    }
    // A first download that was recorded stays the measure of a later one.
    let recorded = hash::recorded(path).filter(|first| published.admits(first));
    let pin = recorded.map_or(published, Pin);
    let sha256 = match &entry.hub {
        Some(model) => {
            let found = model.find(&|name| name == model.file, false, options, report)?;
            let Some(blob) = found else {
                return if options.asks_nobody() {
                    Ok(State::Missing)
                } else {
                    Err(model.not_there(options))
                };
            };
            copy(&pin, &blob, path)?
        }
        None => {
            let target = download::Target { path, pin: &pin, size: entry.size, bearer: None };
            target.fetch(&entry.urls, options, report)?
        }
    };
    if pin.is_whole() {
        return Ok(State::Fetched(sha256));
    }
    hash::record(path, &sha256).map(|()| State::Trusted(sha256))
}

/// Copies a blob of the Hub's cache, whose content is compared with its name and with the manifest, into its place;
/// the hash.
fn copy(pin: &Pin, blob: &Path, path: &Path) -> Result<String> {
    let blob = fs::canonicalize(blob).map_err(Error::io("read", blob))?;
    let sha256 = sha256_of(&blob)?;
    let name = blob.file_name().and_then(|name| name.to_str()).filter(|name| hash::is_hex(name, 64));
    let named = Pin(name.unwrap_or_default().into());
    if let Some(wrong) = [pin, &named].into_iter().find(|pin| !pin.admits(&sha256)) {
        let origin = format!("{} of the Hub's cache", blob.display());
        let detail = wrong.complaint(&origin, &sha256, "remove that file from the cache and run again");
        return Err(Error::Wrong(path.into(), detail));
    }
    let part = hash::beside(path, "part");
    // What an interrupted copy has left, whatever lies there now.
    let _ = fs::remove_file(&part);
    fs::copy(&blob, &part).and_then(|_| fs::rename(&part, path)).map_err(Error::io("write", path))?;
    Ok(sha256)
}

/// The program's own file of this name, which must be the one that is meant.
fn written(name: &str, path: &Path, pin: &Pin) -> Result<State> {
    let wrong = |detail: String| Error::Wrong(path.into(), detail);
    let packed = embedded::content(name).ok_or_else(|| wrong(format!("the program has no file {name}")))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).map_err(Error::io("unpack", path))?;
    let sha256 = hex(Sha256::new().chain_update(&bytes));
    if !pin.admits(&sha256) {
        return Err(wrong(pin.complaint("the program's own file", &sha256, "mend the manifest")));
    }
    ebm_files::replace(path, &bytes, Durability::Atomic).map_err(Error::io("write", path))?;
    Ok(State::Written(sha256))
}

/// The right to fetch `target`, without waiting for it.
fn take_lock(target: &Path) -> Result<Lock> {
    let path = hash::beside(target, "lock");
    Lock::take(&path).map_err(|error| match error {
        LockError::Held { holder } => Error::Locked(target.into(), holder),
        LockError::Io(source) => Error::io("lock", &path)(source),
    })
}

/// How the file or folder stands; `None` if there is none.
fn present(entry: &Entry, path: &Path) -> Result<Option<State>> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::io("read", path))?,
    };
    if meta.is_dir() {
        return folder(entry, path).map(Some);
    }
    let (sha256, new) = hash::verify(path, &entry.pin(), entry.size)?;
    Ok(Some(if new { State::Recorded(sha256) } else { State::Verified(sha256) }))
}

fn folder(entry: &Entry, path: &Path) -> Result<State> {
    let wrong = |detail: String| Err(Error::Wrong(path.into(), detail));
    let Some(instruction) = &entry.by_hand else {
        return wrong("is a folder where a file is to be; move it away and run again".into());
    };
    let (entries, least) =
        (fs::read_dir(path).map_err(Error::io("list", path))?.count() as u64, entry.entries.unwrap_or(1));
    if entries < least {
        return wrong(format!("holds {entries} files where at least {least} are expected: {instruction}"));
    }
    Ok(State::Folder(entries))
}
