//! How much of a disk is free.

use std::path::Path;

/// Bytes that this user may still write into the folder; `None` where the system does not tell.
#[cfg(unix)]
pub(super) fn free(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes that this user may still write into the folder; `None` where the system does not tell.
#[cfg(not(unix))]
pub(super) fn free(_folder: &Path) -> Option<u64> {
    None
}

/// Whether an error says that the disk, a quota or a limit is full.
pub(super) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
