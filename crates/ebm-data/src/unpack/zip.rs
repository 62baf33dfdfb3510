//! Zip archives.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use ::zip::ZipArchive;
use ::zip::read::{ArchiveOffset, Config};
use ::zip::result::ZipError;

use super::ArchiveFault;
use super::budget::Excess;
use super::names::Kind;
use super::sink::{Admitted, Fault, Sink};
use crate::zip_list::check_whole;

/// The bits of a Unix mode that tell the kind of a file.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

/// Unpacks all entries.
pub(super) fn fill(mut file: BufReader<File>, sink: &mut Sink) -> Result<(), Fault> {
    // Counted before the library makes room for the list of entries.
    let declared = declared_entries(&mut file).map_err(Fault::unreadable)?;
    sink.budget().check_entries(declared).map_err(of_all)?;
    let list = file.get_ref().try_clone().map_err(Fault::unreadable)?;
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let mut archive = ZipArchive::with_config(config, file).map_err(broken)?;
    sink.budget().check_entries(archive.len() as u64).map_err(of_all)?;
    if archive.has_duplicate_names() {
        return Err(of_all((ArchiveFault::Duplicate, "two entries have the same name".to_owned())));
    }
    check_whole(&archive, &list).map_err(|detail| of_all((ArchiveFault::Damaged, detail)))?;
    // All of them before the first is made.
    let admitted =
        (0..archive.len()).map(|index| admit(&archive, index, sink)).collect::<Result<Vec<_>, _>>()?;
    if archive.has_overlapping_entries().map_err(broken)? {
        return Err(of_all((ArchiveFault::Overlap, "two entries share bytes of the archive".to_owned())));
    }
    for (index, (kind, place)) in admitted.iter().enumerate() {
        match kind {
            Kind::Folder => sink.make_folder(place)?,
            Kind::File => sink.write_file(place, &mut archive.by_index(index).map_err(broken)?)?,
        }
    }
    Ok(())
}

/// A fault of the archive as a whole.
fn of_all((fault, detail): Excess) -> Fault {
    Fault::archive("", fault, detail)
}

/// Name, kind and size of an entry as the list declares them.
fn admit(
    archive: &ZipArchive<BufReader<File>>,
    index: usize,
    sink: &mut Sink,
) -> Result<(Kind, Admitted), Fault> {
    let entry = archive.by_index_data(index).map_err(broken)?;
    let name = entry.name_raw();
    let kind = if name.ends_with(b"/") { Kind::Folder } else { Kind::File };
    let refused = |fault, detail| Err(Fault::archive(&String::from_utf8_lossy(name), fault, detail));
    match (entry.unix_mode().unwrap_or(0) & KIND, kind) {
        (SYMLINK, _) => return refused(ArchiveFault::Link, "it is a symbolic link".to_owned()),
        // Archives made elsewhere tell no mode.
        (0, _) | (REGULAR, Kind::File) | (FOLDER, Kind::Folder) => {}
        (mode, _) => {
            let detail = format!("its mode {mode:o} is neither that of a file nor of a folder");
            return refused(ArchiveFault::Special, detail);
        }
    }
    Ok((kind, sink.admit(name, kind, entry.size())?))
}

/// The number of entries that the end of the archive declares: the largest, where it can be read in several
/// ways.
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

fn broken(error: ZipError) -> Fault {
    Fault::archive("", ArchiveFault::Damaged, format!("it is no complete zip archive: {error}"))
}
