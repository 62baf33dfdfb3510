//! The arrays of an npz file, a zip archive of `.npy` files, within bounds.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use ::zip::ZipArchive;
use ::zip::read::{ArchiveOffset, Config, ZipFile};
use ::zip::result::ZipError;

use super::npy::Header;

/// The most entries of an archive; FSA-Net's have three.
const MAX_ENTRIES: u16 = 64;
/// The largest list of entries, in bytes.
const MAX_DIRECTORY_BYTES: u32 = 1 << 16;
/// How many times larger an entry may be than its compressed form: photographs do not shrink by more.
const MAX_RATIO: u64 = 100;
/// The size up to which the ratio does not matter.
const SMALL: u64 = 1 << 20;

type Source = BufReader<File>;

/// An opened npz file.
pub(super) struct Archive {
    zip: ZipArchive<Source>,
    file_bytes: u64,
    max_array_bytes: u64,
}

/// An array whose header has been checked against its size, with a reader at its first element.
pub(super) struct Array<'a> {
    pub header: Header,
    pub entry: ZipFile<'a, Source>,
}

impl Archive {
    /// Opens an archive; no array may be larger than `max_array_bytes`.
    pub fn open(file: File, max_array_bytes: u64) -> Result<Self, String> {
        let io = |error: std::io::Error| format!("it cannot be read: {error}");
        let mut source = BufReader::new(file);
        let file_bytes = source.seek(SeekFrom::End(0)).map_err(io)?;
        check_end(&mut source, file_bytes)?;
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let zip = ZipArchive::with_config(config, source).map_err(|error| error.to_string())?;
        if zip.has_duplicate_names() {
            return Err("two arrays have the same name".to_owned());
        }
        Ok(Self { zip, file_bytes, max_array_bytes })
    }

    /// The most memory that may be taken for what a file of this size holds, in bytes.
    pub fn max_memory(&self) -> u64 {
        self.file_bytes.saturating_mul(MAX_RATIO).saturating_add(SMALL).min(self.max_array_bytes)
    }

    /// The array `name`, of one of the types in `types`, each with its size in bytes; `None` if there is
    /// none.
    ///
    /// When this succeeds, the header's shape and type account for every byte that the entry declares.
    pub fn array(&mut self, name: &str, types: &[(&str, usize)]) -> Result<Option<Array<'_>>, String> {
        let fail = |detail: String| format!("array `{name}`: {detail}");
        let mut entry = match self.zip.by_name(&format!("{name}.npy")) {
            Err(ZipError::FileNotFound) => return Ok(None),
            other => other.map_err(|error| fail(error.to_string()))?,
        };
        let (size, compressed) = (entry.size(), entry.compressed_size());
        if size > self.max_array_bytes {
            let limit = self.max_array_bytes;
            return Err(fail(format!(
                "{size} bytes exceed the limit of {limit}; raise it if the file is trusted"
            )));
        }
        if compressed > self.file_bytes {
            return Err(fail(format!("{compressed} bytes in a file of {}", self.file_bytes)));
        }
        if size > SMALL && size / MAX_RATIO > compressed {
            return Err(fail(format!(
                "{compressed} bytes would unpack to {size}, more than {MAX_RATIO} times as many"
            )));
        }
        let (header, header_bytes) = Header::read(&mut entry).map_err(fail)?;
        let Some((_, item)) = types.iter().find(|(descr, _)| *descr == header.descr) else {
            let known: Vec<_> = types.iter().map(|(descr, _)| *descr).collect();
            return Err(fail(format!("type {:?} is none of {}", header.descr, known.join(", "))));
        };
        if header.fortran_order && header.shape.len() > 1 {
            return Err(fail("it is in Fortran order; save numpy.ascontiguousarray of it".to_owned()));
        }
        let held = size.saturating_sub(header_bytes as u64);
        match header.data_bytes(*item) {
            Some(promised) if promised == held => Ok(Some(Array { header, entry })),
            promised => {
                let promised = promised.map_or("more than 2^64".to_owned(), |bytes| bytes.to_string());
                let shape = &header.shape;
                Err(fail(format!(
                    "shape {shape:?} of {} needs {promised} bytes, there are {held}",
                    header.descr
                )))
            }
        }
    }
}

impl Array<'_> {
    /// Reads to the end, where the archive's checksum is compared.
    pub fn finish(mut self) -> Result<(), String> {
        match self.entry.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err("there are more data than declared".to_owned()),
            Err(error) => Err(format!("the data are damaged: {error}")),
        }
    }
}

/// Checks the record that ends the archive before the zip library makes room for what it promises.
fn check_end(source: &mut Source, file_bytes: u64) -> Result<(), String> {
    const RECORD: usize = 22;
    const LOCATOR: usize = 20;
    if file_bytes < RECORD as u64 {
        return Err(format!("{file_bytes} bytes are no zip archive"));
    }
    let mut end = [0; LOCATOR + RECORD];
    let len = end.len().min(usize::try_from(file_bytes).unwrap_or(usize::MAX));
    let tail = end.len() - len;
    let io = |error: std::io::Error| format!("it cannot be read: {error}");
    source.seek(SeekFrom::End(-(len as i64))).map_err(io)?;
    source.read_exact(&mut end[tail..]).map_err(io)?;
    let (locator, record) = end.split_at(LOCATOR);
    let (Some(b"PK\x05\x06"), Some([0, 0])) = (record.get(..4), record.get(20..)) else {
        return Err(
            "it does not end as a zip archive without a comment does; fetch the file again".to_owned()
        );
    };
    if locator.starts_with(b"PK\x06\x07") {
        return Err("archives of more than 2 GiB (zip64) are not read".to_owned());
    }
    let entries = u16::from_le_bytes([record[10], record[11]]);
    let bytes = u32::from_le_bytes([record[12], record[13], record[14], record[15]]);
    let start = u32::from_le_bytes([record[16], record[17], record[18], record[19]]);
    if entries > MAX_ENTRIES || bytes > MAX_DIRECTORY_BYTES {
        return Err(format!("a list of {entries} entries in {bytes} bytes is not that of a few arrays"));
    }
    if u64::from(start) + u64::from(bytes) + RECORD as u64 != file_bytes {
        return Err("its list of entries is not where the end of the archive says".to_owned());
    }
    Ok(())
}
