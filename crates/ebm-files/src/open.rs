//! Opening what is a regular file, and nothing else.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::{kind_of, refused};

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
            large => Self::new(ErrorKind::InvalidData, large.to_string()),
        }
    }
}

/// Opens a regular file for reading, through links. A pipe without a writer is refused at once instead of
/// waited for, and so is a device, which may have no end.
///
/// # Errors
/// Those of the operating system; [`ErrorKind::InvalidInput`] for what is no regular file, with what it is.
pub fn open_input(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    without_waiting(&mut options, true);
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(refused(format!("it is {}, and only regular files are read", kind_of(kind))))
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

/// Opens, or makes, a file of the program's own for reading and writing: its name is the program's choice, so
/// what lies there under another's control is refused. No link is followed, no pipe waited for, and a file
/// that has a second name, which writing would change too, is left alone.
///
/// # Errors
/// Those of the operating system; [`ErrorKind::InvalidInput`] for what is not the program's own, with what it
/// is.
pub fn open_own(path: &Path) -> io::Result<File> {
    match path.symlink_metadata() {
        Ok(found) => check_own(&found)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    without_waiting(&mut options, false);
    let file = options.open(path)?;
    // What was looked at may have been exchanged before it was opened.
    check_own(&file.metadata()?)?;
    Ok(file)
}

fn check_own(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = if !kind.is_file() {
        kind_of(kind)
    } else if names(found) > 1 {
        "a file that has a second name"
    } else {
        return Ok(());
    };
    Err(refused(format!("it is {what} where a file of this program belongs; remove it")))
}

#[cfg(unix)]
fn names(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(found)
}

#[cfg(not(unix))]
fn names(_found: &Metadata) -> u64 {
    1
}

#[cfg(unix)]
fn without_waiting(options: &mut OpenOptions, follow: bool) {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt as _;
    let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY | link).bits() as i32);
}

#[cfg(not(unix))]
fn without_waiting(_options: &mut OpenOptions, _follow: bool) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_inclusive_and_folders_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read_limited(&path, 100).unwrap(), [7; 100]);
        assert!(matches!(read_limited(&path, 99), Err(ReadError::TooLarge { size: 100, limit: 99 })));
        assert!(open_input(dir.path()).unwrap_err().to_string().contains("it is a folder"));
        assert_eq!(open_input(&dir.path().join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn pipes_devices_and_links_are_told() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let [victim, link, second, pipe] =
            ["victim", "link", "second", "pipe"].map(|name| dir.path().join(name));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        std::fs::hard_link(&victim, &second).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let said = |error: io::Error| error.to_string();
        assert!(open_input(&link).is_ok() && open_input(&second).is_ok());
        assert!(said(open_input(&pipe).unwrap_err()).contains("a named pipe"));
        assert!(said(open_input(Path::new("/dev/zero")).unwrap_err()).contains("a device"));
        assert!(said(open_own(&link).unwrap_err()).contains("a symbolic link"));
        assert!(said(open_own(&second).unwrap_err()).contains("a second name"));
        assert!(said(open_own(&pipe).unwrap_err()).contains("a named pipe"));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        open_own(&dir.path().join("new")).unwrap();
        open_own(&dir.path().join("new")).unwrap();
    }
}
