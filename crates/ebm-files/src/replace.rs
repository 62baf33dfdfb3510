//! Writing a file whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::{kind_of, refused};

/// What a power failure may do to a file that was just written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It may be lost, but not be there in part.
    Atomic,
    /// It is on the disk when the writing returns.
    Synced,
}

/// Whether a file may be written at `path`: nothing is there, or a regular file. Devices, pipes and folders
/// stay what they are, and a symbolic link is neither followed nor replaced, since either would surprise
/// whoever made it.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] with what is there.
pub fn check_output(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => {
            let what = kind_of(found.file_type());
            Err(refused(format!("it is {what}, and only regular files are replaced; give another name")))
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes `bytes` beside `path` and renames: a reader sees the old content or the new, never a part. The
/// folder must exist.
///
/// # Errors
/// Those of [`check_output`] and of the operating system; what was there stays then, and nothing is left
/// aside.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    check_output(path)?;
    let (mut file, aside) = create_aside(path)?;
    let mut write = || {
        file.write_all(bytes)?;
        if durability == Durability::Synced {
            file.sync_all()?;
        }
        fs::rename(&aside, path)
    };
    write().inspect_err(|_| {
        // The first error is the one worth telling.
        let _ = fs::remove_file(&aside);
    })
}

/// A new file `.<name>.<process>-<number>.part`: a process in another container may have the same number, so
/// that only a name that did not exist is one's own.
fn create_aside(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or_else(|| refused("it does not name a file".to_owned()))?;
    for number in 0.. {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.part", std::process::id()));
        let aside = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&aside) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u16::MAX => {}
            opened => return Ok((opened?, aside)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_and_a_folder_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [path, folder] = ["file", "folder"].map(|name| dir.path().join(name));
        fs::create_dir(&folder).unwrap();
        // What a process of this number, in another container, is writing.
        let foreign = dir.path().join(format!(".file.{}-0.part", std::process::id()));
        fs::write(&foreign, "foreign").unwrap();
        for (content, durability) in [("old", Durability::Atomic), ("new", Durability::Synced)] {
            replace(&path, content.as_bytes(), durability).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "foreign");
        fs::remove_file(foreign).unwrap();
        let error = replace(&folder, b"x", Durability::Atomic).unwrap_err();
        assert!(error.to_string().contains("it is a folder"), "{error}");
        assert_eq!(names(dir.path()), ["file", "folder"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let [victim, link, dangling, pipe] =
            ["victim", "link", "dangling", "pipe"].map(|n| dir.path().join(n));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::os::unix::fs::symlink(dir.path().join("absent"), &dangling).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        for (path, what) in
            [(&link, "a symbolic link"), (&dangling, "a symbolic link"), (&pipe, "a named pipe")]
        {
            let error = replace(path, b"x", Durability::Atomic).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(names(dir.path()), ["dangling", "link", "pipe", "victim"]);
        assert_eq!(fs::read_link(&link).unwrap(), victim);
    }
}
