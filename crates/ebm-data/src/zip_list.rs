//! The list of entries of a zip archive.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use ::zip::ZipArchive;

/// The bytes of an entry in the list without its name, its extra fields and its comment.
const ENTRY: u64 = 46;

/// Fails unless the list of `archive` ends where its end record begins: one that counts fewer entries than
/// the list has would have them left out without a word. `file` is the archive's.
pub(crate) fn check_whole<R: Read + Seek>(archive: &ZipArchive<R>, mut file: &File) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let count = archive.len();
    let mut end = archive.central_directory_start();
    if let Some(last) = count.checked_sub(1) {
        end = archive.by_index_data(last).map_err(|error| error.to_string())?.central_header_start();
        let mut entry = [0; ENTRY as usize];
        file.seek(SeekFrom::Start(end)).and_then(|_| file.read_exact(&mut entry)).map_err(unreadable)?;
        let [name, extra, comment] =
            [28, 30, 32].map(|at| u64::from(u16::from_le_bytes([entry[at], entry[at + 1]])));
        end += ENTRY + name + extra + comment;
    }
    let mut next = [0; 4];
    file.seek(SeekFrom::Start(end)).and_then(|_| file.read_exact(&mut next)).map_err(unreadable)?;
    match &next {
        b"PK\x05\x06" | b"PK\x06\x06" => Ok(()),
        _ => Err(format!("its list of entries goes on where its end counts {count}")),
    }
}
