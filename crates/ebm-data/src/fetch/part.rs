//! A file that is not whole yet: `<name>.part`, and `<name>.part.meta` which says what it is a part of.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use ebm_files::{Durability, check_output, replace};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::{Error, Result};
use super::hash;
use super::space;
use crate::files::read_limited;

/// More than any description of a part has, in bytes.
const META_LIMIT: u64 = 1 << 16;

/// `<path>.<suffix>`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Which content on which server the bytes belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub url: String,
    /// The whole file's size in bytes, if the server told.
    pub total: Option<u64>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

impl Meta {
    /// What makes a server send the rest only of the same content: a strong tag, or else a date.
    pub fn validator(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|etag| !etag.starts_with("W/"));
        strong.or(self.last_modified.as_deref())
    }
}

/// The bytes so far and their hash.
pub(super) struct Part {
    target: PathBuf,
    path: PathBuf,
    file: File,
    len: u64,
    hash: Sha256,
    meta: Option<Meta>,
    /// Whether the bytes come from more than one answer.
    pub mended: bool,
}

impl Part {
    /// Opens what an earlier process left of `target`, and hashes it again. Nothing but a regular file is
    /// taken for that, and nothing else at `target` would be replaced in the end.
    pub fn open(target: &Path) -> Result<Self> {
        check_output(target).map_err(Error::io("write", target))?;
        let path = beside(target, "part");
        check_output(&path).map_err(Error::io("open", &path))?;
        let options = File::options().create(true).truncate(false).read(true).write(true).clone();
        let mut file = options.open(&path).map_err(Error::io("open", &path))?;
        let mut hash = Sha256::new();
        let mut len = 0;
        hash::update(&mut hash, &mut file, &mut |n| len += n as u64).map_err(Error::io("read", &path))?;
        let meta = read_limited(&beside(&path, "meta"), META_LIMIT).ok();
        let meta = meta.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let part = Self { target: target.into(), path, file, len, hash, meta, mended: len > 0 };
        Ok(part)
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// What the bytes belong to; `None` if nobody knows.
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// Drops all bytes; those that come belong to `meta`. Written in this order, so that a part is never
    /// described wrongly.
    pub fn restart(&mut self, meta: Option<Meta>) -> Result<()> {
        self.file.set_len(0).map_err(Error::io("cut", &self.path))?;
        self.file.seek(SeekFrom::Start(0)).map_err(Error::io("cut", &self.path))?;
        (self.len, self.hash, self.mended) = (0, Sha256::new(), false);
        if let Some(meta) = &meta {
            let path = beside(&self.path, "meta");
            let json = serde_json::to_vec(meta).map_err(|error| Error::io("write", &path)(error.into()))?;
            let written = replace(&path, &json, Durability::Atomic);
            written.map_err(|source| self.write_error(&path, source, 0))?;
        }
        self.meta = meta;
        Ok(())
    }

    /// Adds bytes; `left` more are to come after those that are here, for the message of a full disk.
    pub fn append(&mut self, bytes: &[u8], left: u64) -> Result<()> {
        self.file.write_all(bytes).map_err(|source| self.write_error(&self.path, source, left))?;
        self.hash.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// The hash of the bytes so far.
    pub fn sha256(&self) -> String {
        hash::hex(self.hash.clone())
    }

    /// Makes the bytes durable and gives them their final name.
    pub fn commit(self) -> Result<()> {
        self.file.sync_all().map_err(|source| self.write_error(&self.path, source, 0))?;
        fs::rename(&self.path, &self.target).map_err(Error::io("move into place", &self.target))?;
        let _ = fs::remove_file(beside(&self.path, "meta"));
        sync_folder(&self.target)
    }

    /// Removes the bytes: they are no part of anything.
    pub fn discard(self) {
        // The error that led here is the one worth telling; the next run starts over anyway.
        let _ = self.file.set_len(0);
        remove(&self.target);
    }

    /// Whether a later process can go on from these bytes.
    pub fn is_of_use(&self) -> bool {
        self.len > 0 && self.meta.as_ref().is_some_and(|meta| meta.total.is_some())
    }

    fn write_error(&self, path: &Path, source: std::io::Error, left: u64) -> Error {
        if space::is_full(&source) {
            let free = self.target.parent().and_then(space::free);
            return Error::DiskFull { path: self.target.clone(), needed: left, free };
        }
        Error::io("write", path)(source)
    }
}

/// Removes what is left of an interrupted download of `target`.
pub(super) fn remove(target: &Path) {
    let part = beside(target, "part");
    // Usually there is nothing to remove.
    let _ = fs::remove_file(beside(&part, "meta"));
    let _ = fs::remove_file(part);
}

/// Makes a renaming durable.
fn sync_folder(path: &Path) -> Result<()> {
    let Some(folder) = path.parent().filter(|_| cfg!(unix)) else { return Ok(()) };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync the folder of", path))
}
