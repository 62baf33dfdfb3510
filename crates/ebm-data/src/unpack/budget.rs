//! How much an archive may cost, in one place: what is over it is refused before it is made or kept.

use serde::{Deserialize, Serialize};

use super::ArchiveFault;

/// The longest name of an entry, in bytes: what systems allow in a path.
pub(super) const MAX_NAME: u64 = 4096;
/// The longest name of one file or folder, in bytes: what file systems allow.
pub(super) const MAX_PART: usize = 255;
/// The most folders that a file is in.
pub(super) const MAX_DEPTH: usize = 64;
/// The largest record of extended attributes of a tar archive, in bytes.
pub(super) const MAX_PAX: u64 = 1 << 16;
/// The most headers of a tar archive that say something of the entry that follows.
pub(super) const MAX_EXTENDED: usize = 4;
/// The most that may follow the last entry of a tar archive, in bytes: zeros up to the tape's block.
pub(super) const MAX_TAIL: u64 = 1 << 20;

/// Why something is over the budget.
pub(super) type Excess = (ArchiveFault, String);

/// How much an archive may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Files and folders, also those folders that only the names of files tell of.
    pub max_entries: usize,
    /// Bytes of the largest file.
    pub max_entry_bytes: u64,
    /// Bytes of all files.
    pub max_total_bytes: u64,
}

impl Budget {
    /// One per cent more than a manifest says: `entries` files and folders, the largest of `entry_bytes`, all
    /// of `total_bytes`.
    pub fn of_manifest(entries: usize, entry_bytes: u64, total_bytes: u64) -> Self {
        let more = |number: u64| number.saturating_add(number.div_ceil(100));
        Self {
            max_entries: entries.saturating_add(entries.div_ceil(100)),
            max_entry_bytes: more(entry_bytes),
            max_total_bytes: more(total_bytes),
        }
    }

    /// Fails for an archive of more bytes than all content stored as it is has, with a tar's padding or a
    /// zip's two headers.
    pub(super) fn check_archive(&self, bytes: u64) -> Result<(), Excess> {
        const PER_ENTRY: u64 = 4096;
        const AROUND: u64 = 1 << 20;
        let limit = (self.max_entries as u64).saturating_mul(PER_ENTRY);
        let limit = self.max_total_bytes.saturating_add(limit).saturating_add(AROUND);
        let say = || format!("{bytes} bytes are more than such an archive has ({limit})");
        within(bytes, limit, ArchiveFault::TooLarge, say)
    }

    /// Fails for more than the allowed number of entries, files or folders.
    pub(super) fn check_entries(&self, entries: u64) -> Result<(), Excess> {
        let limit = self.max_entries as u64;
        let say = || format!("{entries} entries, with their folders, exceed the budget of {limit}");
        within(entries, limit, ArchiveFault::TooManyEntries, say)
    }

    /// Fails for a file that declares `bytes`, or one with which all files declare `total`, which is too
    /// much.
    pub(super) fn check_file(&self, bytes: u64, total: u64) -> Result<(), Excess> {
        let limit = self.max_entry_bytes;
        let say = || format!("{bytes} bytes exceed the budget of {limit} for one entry");
        within(bytes, limit, ArchiveFault::TooLarge, say)?;
        let limit = self.max_total_bytes;
        let say = || format!("{total} bytes up to it exceed the budget of {limit} for all entries");
        within(total, limit, ArchiveFault::TooLarge, say)
    }

    /// Fails for names of all files and folders that take more memory than names of 64 bytes do.
    pub(super) fn check_names(&self, bytes: u64) -> Result<(), Excess> {
        let limit = (self.max_entries as u64).saturating_mul(64).saturating_add(1 << 16);
        let say = || {
            format!("names of {bytes} bytes exceed the budget of {limit} for {} entries", self.max_entries)
        };
        within(bytes, limit, ArchiveFault::TooLarge, say)
    }
}

fn within(number: u64, limit: u64, fault: ArchiveFault, say: impl FnOnce() -> String) -> Result<(), Excess> {
    if number <= limit { Ok(()) } else { Err((fault, say())) }
}
