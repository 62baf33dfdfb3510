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
mod hash;
mod hub;
mod manifest;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use ebm_files::{Durability, Lock, LockError};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use download::Target;

pub use download::FetchOptions;
pub(crate) use hash::hex;
pub use hash::sha256_of;
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

/// How a file of a manifest stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is in its place, for this reason and with this SHA-256 in hexadecimal.
    There(&'static str, String),
    /// It is a folder with so many entries.
    Folder(u64),
    /// It is not there: what to do by hand, or nothing where it was not to be fetched.
    Missing(Option<String>),
}

/// Brings a file of a manifest into its place under `dir`, or verifies the one that is there; its path, and how it
/// stands.
///
/// # Errors
/// [`Error::Locked`] at once if another process fetches it; [`Error::Network`], [`Error::NotThere`] where it is not to
/// be had; [`Error::Fetched`] where it is wrong; [`Error::Io`].
pub fn get_entry(
    entry: &Entry,
    dir: &Path,
    options: &FetchOptions,
    report: Report<'_>,
) -> Result<(PathBuf, State)> {
    let path = dir.join(&entry.path);
    let state = match present(entry, &path)? {
        Some(state) => state,
        None if options.offline || entry.by_hand.is_some() => State::Missing(entry.by_hand.clone()),
        None => fetch(entry, &path, options, report)?,
    };
    Ok((path, state))
}

fn fetch(entry: &Entry, path: &Path, options: &FetchOptions, report: Report<'_>) -> Result<State> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(at("create", folder))?;
    }
    let _lock = take_lock(path)?;
    // The process that held the lock before may have finished the file.
    if let Some(state) = present(entry, path)? {
        return Ok(state);
    }
    if let Some(name) = &entry.embedded {
        return written(name, path, &entry.sha256);
    }
    // A first download that was recorded stays the measure of a later one.
    let recorded = hash::recorded(path).filter(|first| first.starts_with(&entry.sha256));
    let (sha256, url) =
        (recorded.as_ref().unwrap_or(&entry.sha256), entry.url.as_deref().unwrap_or_default());
    let target = Target { path, url, sha256, size: entry.size, bearer: None };
    let found = target.fetch(options, report)?;
    if sha256.len() == 64 {
        return Ok(State::There("fetched and verified", found));
    }
    hash::record(path, &found)?;
    Ok(State::There(
        "fetched; nobody publishes all of a hash, this one is trusted and recorded beside it",
        found,
    ))
}

/// The program's own file of this name, which must be the one that is meant.
fn written(name: &str, path: &Path, sha256: &str) -> Result<State> {
    let missing = || Error::Fetched(path.into(), format!("the program has no file {name}"));
    let mut bytes = Vec::new();
    let packed = embedded::content(name).ok_or_else(missing)?;
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).map_err(at("unpack", path))?;
    let found = hex(Sha256::new().chain_update(&bytes));
    if !found.starts_with(sha256) {
        let detail = format!("the program's own file has SHA-256 {found} where {sha256} is expected");
        return Err(Error::Fetched(path.into(), detail));
    }
    ebm_files::replace(path, &bytes, Durability::Atomic).map_err(at("write", path))?;
    Ok(State::There("written", found))
}

/// The right to fetch `target`, without waiting for it.
fn take_lock(target: &Path) -> Result<Lock> {
    let path = hash::beside(target, "lock");
    Lock::take(&path).map_err(|error| match error {
        LockError::Held { holder } => Error::Locked { path: target.into(), holder },
        LockError::Io(source) => Error::io("lock", &path, source),
    })
}

/// How the file or folder stands; `None` if there is none.
fn present(entry: &Entry, path: &Path) -> Result<Option<State>> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(at("read", path))?,
    };
    if !meta.is_dir() {
        return hash::verify(path, &entry.sha256, entry.size).map(Some);
    }
    let wrong = |detail| Err(Error::Fetched(path.into(), detail));
    let Some(instruction) = &entry.by_hand else {
        return wrong("is a folder where a file is to be; move it away and run again".into());
    };
    let entries = fs::read_dir(path).map_err(at("list", path))?.count() as u64;
    match entry.entries.unwrap_or(1) {
        least if entries < least => {
            wrong(format!("holds {entries} files where at least {least} are expected: {instruction}"))
        }
        _ => Ok(Some(State::Folder(entries))),
    }
}

/// [`Error::Io`] of what was attempted on `path`.
fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::io(action, path, source)
}
