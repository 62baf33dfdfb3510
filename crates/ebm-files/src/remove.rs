//! Removing a folder however deep it is.

use std::io;
use std::path::Path;

/// Removes a file, a link, or a folder with all that it holds; nothing happens if there is none. A few
/// folders are open at a time, whatever the depth, and links are removed, not followed.
///
/// # Errors
/// Those of the operating system; what could not be removed stays.
#[cfg(unix)]
pub fn remove_all(path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, renameat, unlinkat};
    use rustix::io::Errno;
    if unix::unlink(CWD, path)? {
        return Ok(());
    }
    let root = unix::open(CWD, path)?;
    let mut moved = 0u64;
    // Each pass removes a level and moves the folders below it up: as many passes as levels, each folder
    // renamed once.
    loop {
        let mut more = false;
        for name in unix::names(&root)? {
            if unix::unlink(&root, &name)? {
                continue;
            }
            more = true;
            let folder = unix::open(&root, &name)?;
            for inner in unix::names(&folder)? {
                while !unix::unlink(&folder, &inner)? {
                    moved += 1;
                    match renameat(&folder, &inner, &root, format!(".removed-{moved}")) {
                        // The name is taken.
                        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                        Err(error) => return Err(error.into()),
                        Ok(()) => break,
                    }
                }
            }
        }
        if !more {
            return Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?);
        }
    }
}

/// Removes a file, a link, or a folder with all that it holds; nothing happens if there is none.
///
/// # Errors
/// Those of the operating system; what could not be removed stays.
#[cfg(not(unix))]
pub fn remove_all(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(unix)]
mod unix {
    use std::ffi::CString;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, unlinkat};
    use rustix::io::{Errno, Result};
    use rustix::path::Arg;

    /// Opens a folder, through no link.
    pub fn open(parent: impl AsFd, name: impl Arg) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(parent, name, flags, Mode::empty())
    }

    /// What a folder holds.
    pub fn names(folder: &OwnedFd) -> Result<Vec<CString>> {
        let entries = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_owned()));
        entries
            .filter(|name| !matches!(name, Ok(name) if [&b"."[..], b".."].contains(&name.to_bytes())))
            .collect()
    }

    /// Removes a file, a link or an empty folder, which may have gone already; `false` for a folder that
    /// holds something.
    pub fn unlink(parent: impl AsFd, name: impl Arg + Copy) -> Result<bool> {
        let refusal = match unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            // So systems answer for a folder.
            Err(error @ (Errno::ISDIR | Errno::PERM)) => error,
            Err(error) => return Err(error),
        };
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(Errno::NOTDIR) => Err(refusal),
            Err(error) => Err(error),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_links_and_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let [victim, link, folder] = ["victim", "link", "folder"].map(|name| dir.path().join(name));
        fs::create_dir_all(victim.join("inner")).unwrap();
        fs::write(victim.join("inner/file"), "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&victim, folder.join("link")).unwrap();
        for path in [&link, &folder, &dir.path().join("absent")] {
            remove_all(path).unwrap();
        }
        assert!(link.symlink_metadata().is_err() && !folder.exists());
        assert_eq!(fs::read_to_string(victim.join("inner/file")).unwrap(), "precious");
        remove_all(&victim).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// Deeper than a path may be long.
    #[test]
    fn a_tree_of_any_depth() {
        use rustix::fs::{CWD, Mode, mkdirat};
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut at = unix::open(CWD, &root).unwrap();
        for level in 0..2100 {
            mkdirat(&at, "a", Mode::RWXU).unwrap();
            if level % 300 == 0 {
                mkdirat(&at, ".removed-7", Mode::RWXU).unwrap();
                mkdirat(&at, ".removed-7/inner", Mode::RWXU).unwrap();
            }
            at = unix::open(&at, "a").unwrap();
        }
        remove_all(&root).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
