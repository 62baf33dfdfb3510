//! Archives of datasets, unpacked within bounds: zip, tar and gzipped tar.
//!
//! An archive is the word of a stranger. Only files and folders below the target are made, no links and no
//! devices, and the [`Budget`] bounds their number and the bytes that come out. All goes into a folder beside
//! the target, which is renamed when it is whole: a reader sees the target with everything in it, or no
//! target. One process at a time fills a target.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use ::tar::{Archive, EntryType};
use ::zip::ZipArchive;
use ebm_base::files::open_input;
use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::fetch::hex;
use crate::files::{read_limited, write_atomic};
use crate::staging::{Busy, Staging};

/// The file in an unpacked folder that says which archive it came from.
pub const MARKER: &str = ".unpacked.json";
/// More than any marker has, in bytes.
const MARKER_LIMIT: u64 = 1 << 16;
/// The bytes of zeros that a tar archive ends with, at least.
const TAR_END: usize = 512;

/// How much an archive may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Files and folders, also those folders that only the names of files tell of.
    pub max_entries: usize,
    /// Bytes of all files.
    pub max_bytes: u64,
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

/// Unpacks `archive` into the new folder `target`, whose parents are made, and leaves [`MARKER`] in it. With
/// `top` all of the archive lies in one folder, and that becomes the target. The format is told from the
/// content. A target that the same archive was unpacked into is left as it is.
///
/// # Errors
/// [`Error::Data`] for a hostile or damaged one; [`Error::Argument`] if `target` holds something else, or
/// there is not one folder alone; [`Error::Failure`] while another process unpacks to it; [`Error::Io`] for
/// the machine's failures, and for an archive that is no regular file. After an error the target is as it was
/// before.
pub fn unpack(archive: &Path, target: &Path, budget: &Budget, top: bool) -> Result<Unpacked> {
    let unreadable = |error| Error::io("read", archive, error);
    let mut file = open_input(archive).map_err(unreadable)?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash).and_then(|_| file.rewind()).map_err(unreadable)?;
    let sha256 = hex(hash.finalize());
    let staging = Staging::beside(target, Busy::Refuse)?;
    if let Some(unpacked) = already(target, &sha256)? {
        return Ok(unpacked);
    }
    let unpacked = Unpacked { sha256, files: 0, bytes: 0 };
    let mut sink = Sink { archive, folder: staging.path(), budget, entries: 0, unpacked };
    fill(file, &mut sink)?;
    if sink.unpacked.files == 0 {
        return Err(sink.refuse("it holds no file"));
    }
    let marker =
        serde_json::to_vec(&sink.unpacked).map_err(|error| Error::io("write", target, error.into()))?;
    let unpacked = sink.unpacked;
    let whole = if top { only_folder(archive, staging.path())? } else { staging.path().to_owned() };
    write_atomic(&whole.join(MARKER), &marker)?;
    staging.finish(&whole)?;
    Ok(unpacked)
}

/// What `target` holds if it came from the archive with this digest; `None` if there is nothing.
fn already(target: &Path, sha256: &str) -> Result<Option<Unpacked>> {
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none()) || !target.exists() {
        return Ok(None);
    }
    let marker = read_limited(&target.join(MARKER), MARKER_LIMIT).ok();
    let unpacked: Option<Unpacked> = marker.and_then(|marker| serde_json::from_slice(&marker).ok());
    let same = unpacked.filter(|unpacked| unpacked.sha256 == sha256);
    let detail = || format!("{} holds something else; remove it or choose another folder", target.display());
    same.map(Some).ok_or_else(|| Error::Argument { name: "target", detail: detail() })
}

/// The folder that is alone in `dir`.
fn only_folder(archive: &Path, dir: &Path) -> Result<PathBuf> {
    let list = || fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    let found = list().map_err(|error| Error::io("read", dir, error))?;
    match &found[..] {
        [folder] if folder.is_dir() => Ok(folder.clone()),
        _ => {
            let detail = format!("{} does not hold one folder alone; unpack it as it is", archive.display());
            Err(Error::Argument { name: "top", detail })
        }
    }
}

/// Unpacks all entries, whatever the format.
fn fill(mut file: File, sink: &mut Sink<'_>) -> Result<()> {
    let (mut magic, mut end) = ([0; 2], [1; TAR_END]);
    let mut look = || {
        file.read_exact(&mut magic)?;
        file.seek(SeekFrom::End(-(TAR_END as i64))).and_then(|_| file.read_exact(&mut end)).ok();
        file.rewind()
    };
    look().map_err(|error| sink.refuse(error))?;
    let source = BufReader::with_capacity(1 << 16, file);
    match &magic {
        b"PK" => unzip(source, sink),
        [0x1f, 0x8b] => untar(MultiGzDecoder::new(source), sink),
        _ if end == [0; TAR_END] => untar(source, sink),
        _ => Err(sink.refuse("it is no archive, or its end is missing")),
    }
}

fn unzip(source: impl Read + Seek, sink: &mut Sink<'_>) -> Result<()> {
    let mut archive = ZipArchive::new(source).map_err(|error| sink.refuse(error))?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| sink.refuse(error))?;
        let name = entry.name().map_err(|error| sink.refuse(error))?.into_owned();
        let (is_folder, is_link) = (entry.is_dir(), entry.is_symlink());
        sink.put(Path::new(&name), is_folder, !is_link, &mut entry)?;
    }
    Ok(())
}

fn untar(source: impl Read, sink: &mut Sink<'_>) -> Result<()> {
    let mut archive = Archive::new(source);
    for entry in archive.entries().map_err(|error| sink.refuse(error))? {
        let mut entry = entry.map_err(|error| sink.refuse(error))?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let name = entry.path().map_err(|error| sink.refuse(error))?.into_owned();
        // Before there was a type for folders their name told.
        let is_folder = kind.is_dir() || entry.path_bytes().ends_with(b"/");
        sink.put(&name, is_folder, kind.is_dir() || kind.is_file(), &mut entry)?;
    }
    // The checksum of a compressed archive is at the very end.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| sink.refuse(error))?;
    Ok(())
}

/// Where entries go: a folder that none can leave, and a budget that none can exceed.
struct Sink<'a> {
    archive: &'a Path,
    folder: &'a Path,
    budget: &'a Budget,
    entries: usize,
    unpacked: Unpacked,
}

impl Sink<'_> {
    fn refuse(&self, detail: impl ToString) -> Error {
        let detail = detail.to_string();
        Error::Data(
            self.archive.to_owned(),
            format!("{detail}; fetch the archive again, or from another place"),
        )
    }

    /// Makes the folder `name`, or the file with what `data` yields, and the folders that it is in. `plain`
    /// is false for links and devices.
    fn put(&mut self, name: &Path, is_folder: bool, plain: bool, data: &mut impl Read) -> Result<()> {
        let shown: String = name.to_string_lossy().chars().take(200).collect();
        let refuse = |sink: &Self, why: String| Err(sink.refuse(format!("entry {shown:?}: {why}")));
        let leaves = |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
        if name.components().any(leaves) || !plain {
            return refuse(self, "it leads out of its folder, or is a link or a device".to_owned());
        }
        let mut path = self.folder.to_owned();
        let mut parts = name.components().filter(|part| *part != Component::CurDir).peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            let to_file = parts.peek().is_none() && !is_folder;
            let made = if to_file {
                File::create_new(&path).map(Some)
            } else {
                fs::create_dir(&path).map(|()| None)
            };
            let file = match made {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && !to_file && path.is_dir() => {
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return refuse(self, "it occurs twice".to_owned());
                }
                made => made.map_err(|error| Error::io("create", &path, error))?,
            };
            self.entries += 1;
            if self.entries > self.budget.max_entries {
                let limit = self.budget.max_entries;
                return refuse(self, format!("more files and folders than {limit}, the limit"));
            }
            let Some(mut file) = file else { continue };
            let mut buffer = vec![0; 1 << 16];
            loop {
                let len = match data.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(len) => len,
                    Err(error) => return refuse(self, format!("its data are damaged: {error}")),
                };
                self.unpacked.bytes += len as u64;
                if self.unpacked.bytes > self.budget.max_bytes {
                    let limit = self.budget.max_bytes;
                    return refuse(self, format!("more bytes than {limit}, the limit of all files"));
                }
                file.write_all(&buffer[..len]).map_err(|error| Error::io("write", &path, error))?;
            }
            self.unpacked.files += 1;
        }
        Ok(())
    }
}
