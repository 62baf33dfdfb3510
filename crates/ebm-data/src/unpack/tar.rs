//! Tar archives.

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;

use ::tar::{Archive, Entry, EntryType, PaxExtensions};

use super::ArchiveFault;
use super::budget::{MAX_EXTENDED, MAX_NAME, MAX_PAX, MAX_TAIL};
use super::names::Kind;
use super::sink::{Fault, Sink};

/// The block of zeros that ends an archive, in bytes.
const END: u64 = 512;

/// Unpacks all entries.
pub(super) fn fill(source: impl Read, sink: &mut Sink) -> Result<(), Fault> {
    let zeros = Rc::new(RefCell::new(0));
    let mut archive = Archive::new(Watched { inner: source, zeros: Rc::clone(&zeros) });
    // A longer name or a pax name, for the entry that follows.
    let mut next_name: Option<Vec<u8>> = None;
    let mut extended = 0;
    // As they are in the file: the library would read long names of any length.
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let size = entry.header().entry_size().map_err(broken)?;
        let kind = entry.header().entry_type();
        let own_name = entry.header().path_bytes().into_owned();
        let shown = String::from_utf8_lossy(&own_name).into_owned();
        let is_folder = kind == EntryType::Directory;
        match kind {
            EntryType::GNULongName => {
                count_extended(&mut extended, &shown)?;
                let mut name = read_small(&mut entry, &shown, size, MAX_NAME)?;
                if name.last() == Some(&0) {
                    name.pop();
                }
                next_name = Some(name);
            }
            EntryType::XHeader => {
                count_extended(&mut extended, &shown)?;
                let records = read_small(&mut entry, &shown, size, MAX_PAX)?;
                next_name = pax_name(&records, &shown)?.or(next_name);
            }
            EntryType::XGlobalHeader => {
                count_extended(&mut extended, &shown)?;
                read_small(&mut entry, &shown, size, MAX_PAX)?;
            }
            EntryType::Directory | EntryType::Regular | EntryType::Continuous => {
                extended = 0;
                let name = next_name.take().unwrap_or(own_name);
                // Before there was a type for folders their name told.
                if !is_folder && !name.ends_with(b"/") {
                    let file = sink.admit(&name, Kind::File, size)?;
                    sink.write_file(&file, &mut entry)?;
                } else if size == 0 {
                    let folder = sink.admit(&name, Kind::Folder, 0)?;
                    sink.make_folder(&folder)?;
                } else {
                    // Skipping its data would unpack them, however many there are.
                    let detail = format!("it is a folder with {size} bytes of data");
                    return Err(Fault::archive(&shown, ArchiveFault::Special, detail));
                }
            }
            other => return Err(neither(other, &shown)),
        }
        // The end is what follows the last entry, whose own zeros do not count.
        *zeros.borrow_mut() = 0;
    }
    check_end(archive.into_inner(), &zeros)
}

/// The refusal of what is neither a file nor a folder.
fn neither(kind: EntryType, name: &str) -> Fault {
    match kind {
        EntryType::Link | EntryType::Symlink | EntryType::GNULongLink => {
            Fault::archive(name, ArchiveFault::Link, "it is a link")
        }
        other => {
            let kind = char::from(other.as_byte());
            let detail = format!("it is neither a file nor a folder, but of type {kind:?}");
            Fault::archive(name, ArchiveFault::Special, detail)
        }
    }
}

/// Reads to the very end, where the checksum of a compressed archive is.
fn check_end(source: impl Read, zeros: &RefCell<u64>) -> Result<(), Fault> {
    let tail = std::io::copy(&mut source.take(MAX_TAIL + 1), &mut std::io::sink()).map_err(broken)?;
    if tail > MAX_TAIL {
        let detail = format!("more than {MAX_TAIL} bytes follow its last entry");
        return Err(Fault::archive("", ArchiveFault::TooLarge, detail));
    }
    if *zeros.borrow() < END {
        let detail = "the block of zeros that ends a tar archive is missing: it is cut short";
        return Err(Fault::archive("", ArchiveFault::Damaged, detail));
    }
    Ok(())
}

/// Counts what only says something of the entry that follows; there is no end to it otherwise.
fn count_extended(extended: &mut usize, name: &str) -> Result<(), Fault> {
    *extended += 1;
    if *extended > MAX_EXTENDED {
        let detail = format!("more than {MAX_EXTENDED} extended headers stand before an entry");
        return Err(Fault::archive(name, ArchiveFault::TooManyEntries, detail));
    }
    Ok(())
}

/// The content of an entry that is no file.
fn read_small(entry: &mut Entry<impl Read>, name: &str, size: u64, limit: u64) -> Result<Vec<u8>, Fault> {
    if size > limit {
        let detail = format!("an extended header of {size} bytes exceeds the limit of {limit}");
        return Err(Fault::archive(name, ArchiveFault::TooLarge, detail));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(broken)?;
    if (bytes.len() as u64) < size {
        return Err(Fault::archive(name, ArchiveFault::Damaged, "the archive ends within it"));
    }
    Ok(bytes)
}

/// The name among pax records; what changes the meaning of the entry otherwise is refused.
fn pax_name(records: &[u8], entry: &str) -> Result<Option<Vec<u8>>, Fault> {
    let mut name = None;
    for record in PaxExtensions::new(records) {
        let record = record.map_err(broken)?;
        match record.key_bytes() {
            b"path" => name = Some(record.value_bytes().to_vec()),
            b"linkpath" => return Err(Fault::archive(entry, ArchiveFault::Link, "it is a link")),
            key if key == b"size" || key.starts_with(b"GNU.sparse") => {
                let detail = "its extended header gives another size, which is not read";
                return Err(Fault::archive(entry, ArchiveFault::Special, detail));
            }
            _ => {}
        }
    }
    Ok(name)
}

fn broken(error: std::io::Error) -> Fault {
    Fault::archive("", ArchiveFault::Damaged, format!("it is no complete tar archive: {error}"))
}

/// Counts the zeros that the bytes read so far end with.
struct Watched<R> {
    inner: R,
    zeros: Rc<RefCell<u64>>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.inner.read(buffer)?;
        let mut zeros = self.zeros.borrow_mut();
        match buffer[..len].iter().rposition(|&byte| byte != 0) {
            Some(last) => *zeros = (len - last - 1) as u64,
            None => *zeros += len as u64,
        }
        Ok(len)
    }
}
