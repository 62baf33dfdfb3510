//! Files as others may have left them: opened, replaced, locked and removed.
//!
//! A path that a user or a shared disk supplies may name a pipe that nobody writes to, a device without an
//! end, or a link into somebody's home. What is here deals with regular files and folders and says of
//! everything else what it is. Errors are those of the operating system, or say in a sentence what is wrong;
//! callers add the path.

mod kind;
mod lock;

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::Path;

pub use kind::ErrorKind;
pub use lock::{Lock, LockError};

/// The beginning of the name of a file that is being written. Whoever has a folder for itself may remove
/// what a killed process left under such a name.
pub const UNFINISHED: &str = ".tmp-";

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused, or it is no regular file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is larger than is read.
    #[error("{size} bytes are more than the {limit} that are read")]
    TooLarge {
        /// Its bytes, as far as they are known.
        size: u64,
        /// The most that are read.
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

/// What a power failure may do to a file that was just written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It may be lost, but not be there in part.
    Atomic,
    /// It is on the disk when the writing returns.
    Synced,
}

/// Opens a regular file for reading, through links.
///
/// # Errors
/// Those of the operating system; [`io::ErrorKind::InvalidInput`] for what is no regular file, with what it is.
pub fn open_input(path: &Path) -> io::Result<File> {
    // Looked at before it is opened, which would wait for whoever writes to a pipe.
    check_regular(&fs::metadata(path)?)?;
    File::open(path)
}

/// The whole content of a regular file of at most `limit` bytes, told from its size before anything is read,
/// and again while reading.
///
/// # Errors
/// [`ReadError::TooLarge`]; [`ReadError::Io`] as [`open_input`].
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

/// Whether a file may be written at `path`: nothing is there, or a regular file. Devices, pipes and folders
/// stay what they are, and a symbolic link is neither followed nor replaced.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with what is there.
pub fn check_output(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) => check_regular(&found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes `bytes` beside `path` and renames: a reader sees the old content or the new, never a part. The
/// folder must exist. The file gets the permissions of the umask.
///
/// # Errors
/// Those of [`check_output`] and of the operating system; what was there stays then, and nothing is left
/// aside.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    check_output(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new();
    aside.prefix(UNFINISHED);
    #[cfg(unix)]
    aside.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = aside.tempfile_in(folder)?;
    file.write_all(bytes)?;
    if durability == Durability::Synced {
        file.as_file().sync_all()?;
    }
    file.persist(path)?;
    Ok(())
}

/// Removes a file, a link, or a folder with all that it holds; nothing happens if there is none. Links are
/// removed, not followed.
///
/// # Errors
/// Those of the operating system; what could not be removed stays.
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
