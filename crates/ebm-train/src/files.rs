//! Durable file operations. No other module of this crate writes whole files.

use crate::error::{Error, Result};
use ebm_base::files::{Durability, UNFINISHED};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Converts an error of the operating system to the variant with the right remedy. `needed` is the size of the
/// file that was being written.
pub(crate) fn io_error(path: &Path, action: &'static str, needed: u64, source: io::Error) -> Error {
    let path = path.to_path_buf();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Error::DiskFull { path, needed, source }
        }
        _ => Error::Io { path, action, source },
    }
}

/// Writes a file and waits until it is on the disk.
pub(crate) fn write_durable(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        fault("create")?;
        let mut file = File::create(path)?;
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(first)?;
        fault("write")?;
        file.write_all(rest)?;
        fault("sync")?;
        file.sync_all()
    };
    write().map_err(|source| io_error(path, "write", bytes.len() as u64, source))
}

/// Replaces a file atomically: writes beside it, renames, and makes the rename durable. Anything but a regular
/// file is not replaced.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let replaced = fault("replace").and_then(|()| ebm_base::files::replace(path, bytes, Durability::Synced));
    replaced.map_err(|source| io_error(path, "write", bytes.len() as u64, source))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Renames a file or directory within one directory and makes it durable.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    let renamed = fault("rename").and_then(|()| fs::rename(from, to));
    renamed.map_err(|source| io_error(to, "replace", 0, source))?;
    sync_dir(to.parent().unwrap_or(Path::new(".")))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(path: &Path) -> Result<()> {
    // Elsewhere a directory cannot be opened as a file; nothing more can be done for its entries.
    if cfg!(unix) {
        let sync = || {
            fault("sync directory")?;
            File::open(path)?.sync_all()
        };
        sync().map_err(|source| io_error(path, "synchronise", 0, source))?;
    }
    Ok(())
}

/// Creates a directory and its parents.
pub(crate) fn create_dir(path: &Path) -> Result<()> {
    let created = fault("create directory").and_then(|()| fs::create_dir_all(path));
    created.map_err(|source| io_error(path, "create", 0, source))
}

/// Removes a file, a link or a directory with its content, if it exists.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = fault("remove").and_then(|()| ebm_base::files::remove_all(path));
    removed.map_err(|source| io_error(path, "remove", 0, source))
}

/// Removes the files of a killed process that have no final name yet, or no longer have one. The caller must hold
/// the lock on the directory.
pub(crate) fn remove_unfinished(dir: &Path) -> Result<()> {
    for name in names(dir)? {
        if name.starts_with(UNFINISHED) || name.starts_with(".old-") {
            remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// Returns the names in a directory, in no order. Names that are not Unicode are left out. The list is empty if
/// there is no such directory.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>> {
    let list = || fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    match list() {
        Ok(names) => Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(io_error(dir, "read", 0, source)),
    }
}

/// Largest sizes of a text file and of any file, in bytes.
pub(crate) const MAX_TEXT_BYTES: u64 = 64 << 20;
pub(crate) const MAX_BYTES: u64 = ebm_nn::import::MAX_FILE_BYTES;

/// Reads a whole file of at most `limit` bytes; `None` if it does not exist. The file is never mapped into
/// memory, because truncating a mapped file kills the process.
pub(crate) fn read_if_exists(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match ebm_base::files::read_limited(path, limit).map_err(io::Error::from) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io_error(path, "read", 0, source)),
    }
}

/// Makes an operation fail in this crate's own tests; does nothing otherwise.
#[cfg(not(test))]
fn fault(_operation: &'static str) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(crate) use faults::fault;

/// Injected failures of the disk and of the process, for tests.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::RefCell;
    use std::io;

    /// Failure at an operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fault {
        /// The operation fails, and later ones succeed.
        Error,
        /// The process is killed: no later operation takes place.
        Kill,
    }

    thread_local! {
        static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
    }

    struct Plan {
        fault: Fault,
        /// Number of the operation that fails, from 0.
        at: usize,
        operations: Vec<&'static str>,
    }

    /// Runs `work` with `fault` at its operation `at`; returns the result and the operations that were reached.
    pub fn with<T>(fault: Fault, at: usize, work: impl FnOnce() -> T) -> (T, Vec<&'static str>) {
        PLAN.with_borrow_mut(|plan| *plan = Some(Plan { fault, at, operations: Vec::new() }));
        let result = work();
        let plan = PLAN.with_borrow_mut(Option::take);
        (result, plan.map(|plan| plan.operations).unwrap_or_default())
    }

    pub fn fault(operation: &'static str) -> io::Result<()> {
        PLAN.with_borrow_mut(|plan| {
            let Some(plan) = plan else { return Ok(()) };
            let place = plan.operations.len();
            plan.operations.push(operation);
            let hit = match plan.fault {
                Fault::Error => place == plan.at,
                Fault::Kill => place >= plan.at,
            };
            if hit { Err(io::Error::other("injected")) } else { Ok(()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_the_size_needed() {
        let Some(full) = ebm_testing::system::full_device() else { return };
        let error = write_durable(full, &[0; 10_000]).unwrap_err();
        assert!(matches!(error, Error::DiskFull { needed: 10_000, .. }), "{error}");
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn reasons_have_their_own_remedies() {
        let error = |kind: ErrorKind, action| io_error(Path::new("p"), action, 5, kind.into());
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge] {
            assert!(matches!(error(kind, "write"), Error::DiskFull { needed: 5, .. }));
        }
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            assert!(
                error(kind, "write")
                    .to_string()
                    .ends_with("change its permissions or choose another run directory")
            );
            assert!(error(kind, "read").to_string().ends_with("is on a working disk"));
        }
        assert!(matches!(error(ErrorKind::Interrupted, "write"), Error::Io { .. }));
    }

    #[test]
    fn replace_leaves_one_whole_file_and_nothing_when_it_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        replace(&path, b"first, and longer").unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        let taken = dir.path().join("taken");
        fs::create_dir_all(taken.join("child")).unwrap();
        replace(&taken, b"x").unwrap_err();
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "taken"]);
    }
}
