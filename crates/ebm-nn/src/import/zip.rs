//! The part of the zip format that torch writes: stored members, found through the central directory.

use std::collections::BTreeMap;
use std::path::Path;

use super::format_error;
use crate::Result;

/// The members of a zip archive by name. Data are slices of the archive: nothing is inflated.
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    members: BTreeMap<String, Member>,
}

#[derive(Clone, Copy)]
struct Member {
    header: u64,
    size: u64,
    crc: u32,
}

const END: [u8; 4] = *b"PK\x05\x06";
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64: [u8; 4] = *b"PK\x06\x07";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";

pub(super) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(&LOCAL) || bytes.starts_with(&END)
}

impl<'a> Archive<'a> {
    /// Reads the directory of the archive `bytes`, which came from `path`.
    pub(super) fn open(path: &Path, bytes: &'a [u8]) -> Result<Self> {
        let broken =
            || format_error(path, "the zip directory is damaged or cut off; download or save the file again");
        let members = directory(bytes).ok_or_else(broken)?;
        Ok(Self { bytes, members })
    }

    /// The names of the members, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// The content of a member, after its checksum was verified.
    pub(super) fn read(&self, path: &Path, name: &str) -> Result<&'a [u8]> {
        let Some(member) = self.members.get(name) else {
            return Err(format_error(path, format!("the archive has no member {name}")));
        };
        let data = content(self.bytes, member)
            .ok_or_else(|| format_error(path, format!("member {name} is compressed, damaged or cut off")))?;
        if crc32fast::hash(data) != member.crc {
            let reason = format!("member {name} does not have its checksum; download or save the file again");
            return Err(format_error(path, reason));
        }
        Ok(data)
    }
}

/// All members, or `None` where the archive does not hold together.
fn directory(bytes: &[u8]) -> Option<BTreeMap<String, Member>> {
    // The end record is 22 bytes and a comment of at most 64 KiB from the end.
    let from = bytes.len().saturating_sub(22 + 0xFFFF);
    let end = (from..=bytes.len().checked_sub(22)?).rev().find(|&at| bytes[at..].starts_with(&END))?;
    let (mut count, mut at) = (u64::from(u16_at(bytes, end + 10)?), u64::from(u32_at(bytes, end + 16)?));
    let locator = end.checked_sub(20).filter(|&at| bytes[at..].starts_with(&LOCATOR64));
    if let Some(locator) = locator {
        let end64 = usize::try_from(u64_at(bytes, locator + 8)?).ok()?;
        if bytes.get(end64..)?.starts_with(&END64) {
            (count, at) = (u64_at(bytes, end64.checked_add(32)?)?, u64_at(bytes, end64.checked_add(48)?)?);
        }
    }
    let mut members = BTreeMap::new();
    let mut at = usize::try_from(at).ok()?;
    for _ in 0..count {
        if !bytes.get(at..)?.starts_with(&CENTRAL) {
            return None;
        }
        let (name_len, extra_len) =
            (usize::from(u16_at(bytes, at + 28)?), usize::from(u16_at(bytes, at + 30)?));
        let comment_len = usize::from(u16_at(bytes, at + 32)?);
        let name = std::str::from_utf8(bytes.get(at + 46..at + 46 + name_len)?).ok()?;
        let extra = bytes.get(at + 46 + name_len..at + 46 + name_len + extra_len)?;
        let member = sizes(bytes, at, extra)?;
        if members.insert(name.to_owned(), member).is_some() {
            return None;
        }
        at += 46 + name_len + extra_len + comment_len;
    }
    Some(members)
}

/// A directory entry's place and size, which stand in the zip64 extra field where they exceed 32 bits.
fn sizes(bytes: &[u8], at: usize, mut extra: &[u8]) -> Option<Member> {
    const WIDE: u32 = u32::MAX;
    let (packed, size, header) = (u32_at(bytes, at + 20)?, u32_at(bytes, at + 24)?, u32_at(bytes, at + 42)?);
    let mut member = Member { header: header.into(), size: size.into(), crc: u32_at(bytes, at + 16)? };
    if ![packed, size, header].contains(&WIDE) {
        return Some(member);
    }
    loop {
        let (tag, len) = (u16_at(extra, 0)?, usize::from(u16_at(extra, 2)?));
        let field = extra.get(4..4 + len)?;
        if tag != 1 {
            extra = &extra[4 + len..];
            continue;
        }
        let mut wide = field.chunks_exact(8).map(|c| u64_at(c, 0));
        if size == WIDE {
            member.size = wide.next()??;
        }
        if packed == WIDE {
            wide.next()??;
        }
        if header == WIDE {
            member.header = wide.next()??;
        }
        return Some(member);
    }
}

fn content<'a>(bytes: &'a [u8], member: &Member) -> Option<&'a [u8]> {
    let at = usize::try_from(member.header).ok()?;
    let local = bytes.get(at..)?;
    if !local.starts_with(&LOCAL) || u16_at(local, 8)? != 0 {
        return None;
    }
    let start = 30 + usize::from(u16_at(local, 26)?) + usize::from(u16_at(local, 28)?);
    local.get(start..start.checked_add(usize::try_from(member.size).ok()?)?)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
