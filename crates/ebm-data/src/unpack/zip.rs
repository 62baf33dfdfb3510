//! Zip archives.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use ::zip::ZipArchive;
use ::zip::read::{ArchiveOffset, Config};
use ::zip::result::ZipError;

use super::ArchiveFault;
use super::sink::{Fault, Sink};

/// The bits of a Unix mode that tell the kind of a file.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

/// Unpacks all entries.
pub(super) fn fill(mut file: BufReader<File>, sink: &mut Sink) -> Result<(), Fault> {
    // Counted before the library makes room for the list of entries.
    let declared = declared_entries(&mut file).map_err(Fault::unreadable)?;
    check_count(declared, sink)?;
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let mut archive = ZipArchive::with_config(config, file).map_err(broken)?;
    check_count(archive.len() as u64, sink)?;
    if archive.has_duplicate_names() {
        let detail = "two entries have the same name";
        return Err(Fault::archive("", ArchiveFault::Duplicate, detail));
    }
    check_declared(&archive, sink)?;
    if archive.has_overlapping_entries().map_err(broken)? {
        let detail = "two entries share bytes of the archive";
        return Err(Fault::archive("", ArchiveFault::Overlap, detail));
    }
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        let name = entry.name_raw().to_vec();
        if name.ends_with(b"/") {
            sink.folder(&name)?;
        } else {
            sink.file(&name, entry.size(), &mut entry)?;
        }
    }
    Ok(())
}

fn check_count(declared: u64, sink: &Sink) -> Result<(), Fault> {
    let limit = sink.budget().max_entries;
    if declared <= limit as u64 {
        return Ok(());
    }
    let detail = format!("{declared} entries exceed the budget of {limit}");
    Err(Fault::archive("", ArchiveFault::TooManyEntries, detail))
}

/// The number of entries that the end of the archive declares: the largest, where it can be read in several ways.
fn declared_entries(file: &mut BufReader<File>) -> std::io::Result<u64> {
    // The end record has 22 bytes and a comment of less than 64 KiB; before it may be a locator of 20.
    const TAIL: u64 = 20 + 22 + 0xffff;
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.by_ref().take(TAIL).read_to_end(&mut tail)?;
    let mut declared = 0;
    for at in 0..tail.len().saturating_sub(21) {
        if !tail[at..].starts_with(b"PK\x05\x06") {
            continue;
        }
        let short = u64::from(u16::from_le_bytes([tail[at + 10], tail[at + 11]]));
        let locator =
            at.checked_sub(20).map(|start| &tail[start..at]).filter(|l| l.starts_with(b"PK\x06\x07"));
        let wide = match locator.and_then(|locator| locator.get(8..16)?.try_into().ok()) {
            Some(place) => wide_count(file, u64::from_le_bytes(place))?,
            None => None,
        };
        declared = declared.max(wide.unwrap_or(short));
    }
    Ok(declared)
}

/// The number of entries in the zip64 end record at `place`, if there is one.
fn wide_count(file: &mut BufReader<File>, place: u64) -> std::io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(place))?;
    let mut record = Vec::new();
    file.by_ref().take(40).read_to_end(&mut record)?;
    let count = record.get(32..40).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    Ok(count.filter(|_| record.starts_with(b"PK\x06\x06")))
}

/// Kinds and sizes as the list of entries declares them, before anything is unpacked.
fn check_declared(archive: &ZipArchive<BufReader<File>>, sink: &Sink) -> Result<(), Fault> {
    let mut total = 0u64;
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(broken)?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let is_folder = name.ends_with('/');
        match (entry.unix_mode().unwrap_or(0) & KIND, is_folder) {
            (SYMLINK, _) => {
                return Err(Fault::archive(&name, ArchiveFault::Link, "it is a symbolic link"));
            }
            // Archives made elsewhere tell no mode.
            (0, _) | (REGULAR, false) | (FOLDER, true) => {}
            (mode, _) => {
                let detail = format!("its mode {mode:o} is neither that of a file nor of a folder");
                return Err(Fault::archive(&name, ArchiveFault::Special, detail));
            }
        }
        total = total.saturating_add(entry.size());
        sink.check_size(&name, entry.size())?;
        sink.check_total(&name, total)?;
    }
    Ok(())
}

fn broken(error: ZipError) -> Fault {
    Fault::archive("", ArchiveFault::Damaged, format!("it is no complete zip archive: {error}"))
}
