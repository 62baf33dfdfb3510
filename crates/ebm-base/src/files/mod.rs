//! Safe reading, replacing, locking and removing of files.
//!
//! A path from a user or on a shared disk may name a pipe without a writer, an endless device, or a link into
//! another user's folder. This module accepts regular files and folders only, and its errors name any other kind
//! of file. The errors come from the operating system or state the problem in a sentence; callers add the path.

mod kind;
mod lock;

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::Path;

pub use kind::ErrorKind;
pub use lock::{Lock, LockError};
use tempfile::{NamedTempFile, TempPath};

/// Prefix of the name of an unfinished file. A killed process leaves such a file behind. The owner of a folder may remove
/// it, and the next process that writes the same file does.
pub const UNFINISHED: &str = ".tmp-";

/// Reason why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused, or the path is not a regular file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is larger than the limit.
    #[error("{size} bytes are more than the {limit} that are read")]
    TooLarge {
        /// Size of the file in bytes, as far as it is known.
        size: u64,
        /// Largest size that is read, in bytes.
        limit: u64,
    },
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            large => Self::new(io::ErrorKind::InvalidData, large.to_string()),
        }
    }
}

/// Durability of a written file after a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The new content may be lost, but is never there in part.
    Atomic,
    /// The new content is on the disk when the function returns.
    Synced,
}

/// Opens a regular file for reading. Links are followed.
///
/// # Errors
/// The errors of the operating system, and [`io::ErrorKind::InvalidInput`] with the kind of file if `path` is not
/// a regular file.
pub fn open_input(path: &Path) -> io::Result<File> {
    // The check comes first, because opening a pipe would wait for its writer.
    check_regular(&fs::metadata(path)?)?;
    File::open(path)
}

/// Reads the whole content of a regular file of at most `limit` bytes. The size is checked before anything is
/// read, and again while reading.
///
/// # Errors
/// [`ReadError::TooLarge`], and [`ReadError::Io`] with the errors of [`open_input`].
pub fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let file = open_input(path)?;
    let size = file.metadata()?.len();
    let within = |size| if size > limit { Err(ReadError::TooLarge { size, limit }) } else { Ok(()) };
    within(size)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    within(bytes.len() as u64)?;
    Ok(bytes)
}

/// Checks that a file may be written at `path`: nothing is there, or a regular file. Devices, pipes, folders and
/// symbolic links are refused.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with the kind of file that is there.
pub fn check_output(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) => check_regular(&found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes `bytes` to a new file beside `path` and renames it to `path`, so that a reader sees the old or the new
/// content and never a part. The folder must exist. The file gets the permissions of the umask. What a process that was
/// killed left of the file is removed.
///
/// # Errors
/// The errors of [`check_output`] and of the operating system. The old file then stays, and no unfinished file is
/// left.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    replace_with(path, durability, |file| file.write_all(bytes))
}

/// Writes a file as [`replace`] does, with the content that `write` writes.
///
/// # Errors
/// The errors of [`replace`] and of `write`.
pub fn replace_with<E: From<io::Error>>(
    path: &Path,
    durability: Durability,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    check_output(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = OsString::from(UNFINISHED);
    name.push(path.file_name().unwrap_or_default());
    let aside = folder.join(name);
    let mut file = match lock::create_locked(&aside) {
        Some(file) => NamedTempFile::from_parts(file, TempPath::try_from_path(aside)?),
        None => {
            let mut aside = tempfile::Builder::new();
            aside.prefix(UNFINISHED);
            #[cfg(unix)]
            aside.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            aside.tempfile_in(folder)?
        }
    };
    write(file.as_file_mut())?;
    if durability == Durability::Synced {
        file.as_file().sync_all()?;
    }
    file.persist(path).map_err(io::Error::from)?;
    Ok(())
}

/// Removes a file, a link, or a folder with its content. Nothing happens if `path` does not exist. Links are
/// removed and not followed.
///
/// # Errors
/// The errors of the operating system; the rest of a folder then stays.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn check_regular(found: &Metadata) -> io::Result<()> {
    let what = match (found.is_file(), found.is_dir(), found.is_symlink()) {
        (true, ..) => return Ok(()),
        (_, true, _) => "a folder",
        (.., true) => "a symbolic link",
        _ => "a pipe or a device",
    };
    let why = format!("it is {what}, and only regular files are read and replaced");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_inclusive_and_folders_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read_limited(&path, 100).unwrap(), [7; 100]);
        assert!(matches!(read_limited(&path, 99), Err(ReadError::TooLarge { size: 100, limit: 99 })));
        assert!(open_input(dir.path()).unwrap_err().to_string().contains("it is a folder"));
        assert_eq!(open_input(&dir.path().join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_replaced_and_a_folder_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [path, folder, plain] = ["file", "folder", "plain"].map(|name| dir.path().join(name));
        fs::create_dir(&folder).unwrap();
        fs::write(&plain, "").unwrap();
        for (content, durability) in [("old", Durability::Atomic), ("new", Durability::Synced)] {
            replace(&path, content.as_bytes(), durability).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions(), fs::metadata(&plain).unwrap().permissions());
        assert!(
            replace(&folder, b"x", Durability::Atomic).unwrap_err().to_string().contains("it is a folder")
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_process_left_goes_and_what_runs_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [path, left, other, linked] =
            ["file", ".tmp-file", ".tmp-other", "linked"].map(|name| dir.path().join(name));
        fs::write(&linked, "precious").unwrap();
        fs::hard_link(&linked, &left).unwrap();
        fs::write(&other, "of another").unwrap();
        replace(&path, b"whole", Durability::Atomic).unwrap();
        assert_eq!(fs::read_to_string(&linked).unwrap(), "precious");
        assert!(!left.exists() && other.exists());
        let both = replace_with(&path, Durability::Atomic, |file| {
            assert!(left.exists());
            replace(&path, b"meanwhile", Durability::Atomic)?;
            assert!(left.exists());
            assert_eq!(fs::read_to_string(&path).unwrap(), "meanwhile");
            file.write_all(b"at last")
        });
        both.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "at last");
        let failed = replace_with(&path, Durability::Atomic, |_| Err(io::Error::other("no")));
        failed.unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let [victim, link, folder] = ["victim", "link", "folder"].map(|name| dir.path().join(name));
        fs::create_dir(&folder).unwrap();
        fs::write(&victim, "precious").unwrap();
        for link in [&link, &folder.join("link")] {
            std::os::unix::fs::symlink(&victim, link).unwrap();
        }
        assert_eq!(read_limited(&link, 9).unwrap(), b"precious");
        let device = Path::new("/dev/zero");
        assert!(open_input(device).unwrap_err().to_string().contains("a device"));
        for (path, what) in [(&*link, "a symbolic link"), (device, "a device")] {
            let error = replace(path, b"x", Durability::Atomic).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        for path in [&link, &folder, &dir.path().join("absent")] {
            remove_all(path).unwrap();
        }
        assert!(link.symlink_metadata().is_err() && !folder.exists());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}
