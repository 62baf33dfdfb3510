//! Archives of datasets, unpacked within bounds: zip, tar and gzipped tar.
//!
//! An archive is the word of a stranger. A name is normal components below the target and nothing else; there
//! are no links and no devices; no two names differ by case alone; and the [`Budget`] bounds entries,
//! folders, names and bytes, both as declared and as unpacked. All goes into a folder beside the target,
//! which is renamed when it is whole: a reader sees the target with everything in it, or no target. One
//! process at a time fills a target.

mod budget;
mod names;
mod sink;
mod tar;
mod zip;

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use ebm_files::open_input;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::fetch::hex;
use crate::files::{read_limited, write_atomic};
use crate::staging::{Busy, Staging};

pub use budget::Budget;
use sink::{Fault, Sink};

/// The file in an unpacked folder that says which archive it came from.
pub const MARKER: &str = ".unpacked.json";
/// More than any marker has, in bytes.
const MARKER_LIMIT: u64 = 1 << 16;

/// What is wrong with an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArchiveFault {
    /// A name that is absolute or leads elsewhere, is no text, or holds a NUL, a backslash or a drive letter.
    UnsafeName,
    /// A symbolic or hard link.
    Link,
    /// A device, a pipe, or what only some programs understand, such as a sparse file.
    Special,
    /// A name that occurs twice, perhaps in other case, or both as a file and as a folder.
    Duplicate,
    /// A name that this program gives: that of [`MARKER`] where it belongs.
    Reserved,
    /// More entries, with the folders that they are in, than the budget allows.
    TooManyEntries,
    /// More bytes than the budget allows, in one entry or in all, or in names.
    TooLarge,
    /// Two entries that share bytes of the archive.
    Overlap,
    /// An archive that is cut short, or whose checksums, sizes or counts do not agree with its data.
    Damaged,
    /// Neither zip nor tar nor gzipped tar, or no file in it.
    NoArchive,
}

/// What was unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// The archive's SHA-256 in hexadecimal.
    pub sha256: String,
    /// Files, without folders and the marker.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Unpacks `archive` into the new folder `target`, whose parents are made, and leaves [`MARKER`] in it. The
/// format is told from the content. A target that the same archive was unpacked into, and that has at least
/// as many files and bytes, is left as it is.
///
/// # Errors
/// [`Error::Archive`] with archive, entry and fault for a hostile or damaged one; [`Error::Argument`] if
/// `target` holds something else; [`Error::Locked`] while another process unpacks to it; [`Error::Io`] for
/// the machine's failures, and for an archive that is no regular file. After an error the target is as it was
/// before.
pub fn unpack(archive: &Path, target: &Path, budget: &Budget) -> Result<Unpacked> {
    unpack_as(archive, target, budget, false)
}

/// As [`unpack`] where all of the archive lies in one folder: that folder becomes the target.
///
/// # Errors
/// Those of [`unpack`]; [`Error::Argument`] if there is not one folder alone.
pub fn unpack_top(archive: &Path, target: &Path, budget: &Budget) -> Result<Unpacked> {
    unpack_as(archive, target, budget, true)
}

fn unpack_as(archive: &Path, target: &Path, budget: &Budget, top: bool) -> Result<Unpacked> {
    let unreadable = |error| Error::io("read", archive, error);
    let mut file = open_input(archive).map_err(unreadable)?;
    let refused = |entry, fault, detail| Error::Archive { path: archive.to_owned(), entry, fault, detail };
    let size = file.metadata().map_err(unreadable)?.len();
    budget.check_archive(size).map_err(|(fault, detail)| refused(String::new(), fault, detail))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut (&file).take(size), &mut hash).map_err(unreadable)?;
    let sha256 = hex(hash);
    if let Some(unpacked) = already(target, &sha256)? {
        return Ok(unpacked);
    }
    let staging = Staging::beside(target, Busy::Refuse)?;
    // Another process may have unpacked it before this one had the lock.
    if let Some(unpacked) = already(target, &sha256)? {
        return Ok(unpacked);
    }
    let mut sink = Sink::new(staging.path(), *budget, usize::from(top));
    file.rewind().map_err(unreadable)?;
    fill(file, &mut sink).map_err(|fault| match fault {
        Fault::Machine(error) => error,
        Fault::Archive { entry, fault, detail } => refused(entry, fault, detail),
    })?;
    let unpacked = Unpacked { sha256, files: sink.files(), bytes: sink.bytes() };
    let marker = serde_json::to_vec(&unpacked).map_err(|error| Error::io("write", target, error.into()))?;
    let whole = if top { only_folder(archive, staging.path())? } else { staging.path().to_owned() };
    write_atomic(&whole.join(MARKER), &marker)?;
    staging.finish(&whole)?;
    Ok(unpacked)
}

/// The folder that is alone in `dir`.
fn only_folder(archive: &Path, dir: &Path) -> Result<PathBuf> {
    let list = || fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let found = list().map_err(|error| Error::io("read", dir, error))?;
    match &found[..] {
        [folder] if folder.is_dir() => Ok(folder.clone()),
        _ => {
            let detail = format!("{} does not hold one folder alone; unpack it as it is", archive.display());
            Err(Error::Argument { name: "top", detail })
        }
    }
}

fn fill(mut file: File, sink: &mut Sink) -> std::result::Result<(), Fault> {
    let mut magic = [0; 4];
    let read = file.read(&mut magic).and_then(|len| file.rewind().map(|()| len));
    let len = read.map_err(Fault::unreadable)?;
    let file = BufReader::with_capacity(1 << 16, file);
    match &magic[..len] {
        b"PK\x03\x04" | b"PK\x05\x06" => zip::fill(file, sink)?,
        [0x1f, 0x8b, ..] => tar::fill(flate2::bufread::MultiGzDecoder::new(file), sink)?,
        _ => tar::fill(file, sink)?,
    }
    match sink.files() {
        0 => Err(Fault::archive("", ArchiveFault::NoArchive, "it holds no file")),
        _ => Ok(()),
    }
}

/// What `target` holds if it came from the archive with this digest; `None` if there is nothing.
fn already(target: &Path, sha256: &str) -> Result<Option<Unpacked>> {
    let occupied = |what: &str| Error::Argument {
        name: "target",
        detail: format!("{} holds {what}; remove it or choose another folder", target.display()),
    };
    match fs::read_dir(target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io("list", target, source)),
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(None);
            }
        }
    }
    let marker = read_limited(&target.join(MARKER), MARKER_LIMIT)
        .map_err(|_| occupied("files that no archive was unpacked to"))?;
    let unpacked: Unpacked =
        serde_json::from_slice(&marker).map_err(|_| occupied("what another version has unpacked"))?;
    if unpacked.sha256 != sha256 {
        return Err(occupied("the files of another archive"));
    }
    let (files, bytes) = measure(target)?;
    // The marker is a file as well.
    if files <= unpacked.files || bytes < unpacked.bytes {
        return Err(occupied("the files of this archive, but some are missing or cut short"));
    }
    Ok(Some(unpacked))
}

/// Files below a folder, and their bytes.
fn measure(folder: &Path) -> Result<(usize, u64)> {
    let (mut files, mut bytes) = (0, 0u64);
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let fail = |source| Error::io("list", &folder, source);
        for entry in fs::read_dir(&folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let meta = entry.metadata().map_err(fail)?;
            if meta.is_dir() {
                open.push(entry.path());
            } else {
                files += 1;
                bytes = bytes.saturating_add(meta.len());
            }
        }
    }
    Ok((files, bytes))
}
