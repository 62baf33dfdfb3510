//! torch's format since version 1.6: a zip archive of one pickle and one member per storage, all uncompressed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Cursor;

use zip::{CompressionMethod, ZipArchive};

use super::pickle::Pickle;

/// Returns whether `bytes` begin like an archive.
pub(super) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Reads the object and its storages by key.
pub(super) fn read(bytes: &[u8]) -> Result<(Pickle<'_>, BTreeMap<String, &[u8]>), String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let names = archive.file_names().map(|name| name.map(String::from)).collect::<Result<Vec<_>, _>>();
    let names = names.map_err(broken)?;
    let root = names.iter().find_map(|name| name.strip_suffix("data.pkl"));
    let Some(root) = root.filter(|root| root.is_empty() || root.ends_with('/')) else {
        return Err("a zip archive without torch's data.pkl".to_owned());
    };
    let of_root = |name: &str| name.strip_prefix(root).map(str::to_owned);
    if names.iter().filter_map(|name| of_root(name)).any(|name| name == "code" || name.starts_with("code/")) {
        return Err("a TorchScript module; save its state_dict() with torch.save instead".to_owned());
    }
    let mut members = BTreeMap::new();
    // Members must not overlap: together they have no more bytes than the file.
    let mut left = bytes.len();
    for (index, name) in names.iter().enumerate() {
        let data =
            content(&mut archive, index, bytes, &mut left).map_err(|why| format!("member {name} {why}"));
        members.extend(of_root(name).zip(Some(data?)));
    }
    if members.get("byteorder").is_some_and(|order| *order != b"little") {
        return Err("the tensors were saved on a big-endian machine".to_owned());
    }
    let mut pickle = members.remove("data.pkl").ok_or("data.pkl is missing")?;
    let pickle = Pickle::read(&mut pickle).map_err(|why| format!("its pickle cannot be read: {why}"))?;
    let storage = |(name, data): (String, _)| Some((name.strip_prefix("data/")?.to_owned(), data));
    Ok((pickle, members.into_iter().filter_map(storage).collect()))
}

/// Returns the verified bytes of an uncompressed member. It may take at most `left` bytes, and its size is
/// subtracted from `left`.
fn content<'a>(
    archive: &mut ZipArchive<Cursor<&'a [u8]>>,
    index: usize,
    bytes: &'a [u8],
    left: &mut usize,
) -> Result<&'a [u8], String> {
    let member = archive.by_index_raw(index).map_err(broken)?;
    let place = member.data_start().map(|at| (usize::try_from(at), usize::try_from(member.size())));
    let (Some((Ok(start), Ok(size))), CompressionMethod::Stored) = (place, member.compression()) else {
        return Err("is compressed".to_owned());
    };
    let data = bytes.get(start..).and_then(|rest| rest.get(..size)).ok_or("is cut off")?;
    *left = left.checked_sub(size).ok_or("and those before it have more bytes than the file")?;
    if crc32fast::hash(data) != member.crc32() {
        return Err("does not have its checksum; download or save the file again".to_owned());
    }
    Ok(data)
}

fn broken(error: impl Display) -> String {
    format!("the zip archive is damaged or cut off ({error}); download or save the file again")
}
