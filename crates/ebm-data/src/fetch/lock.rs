//! One process for one file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::error::{Error, Result};

/// Held while a file is fetched; the lock's own file goes with it.
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

/// Where the lock of `target` is.
pub(super) fn file_of(target: &Path) -> PathBuf {
    super::part::beside(target, "lock")
}

impl Lock {
    /// Takes the lock of `target` without waiting.
    pub fn take(target: &Path) -> Result<Self> {
        let path = file_of(target);
        loop {
            let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
            let mut file = open.map_err(Error::io("open", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(source)) => return Err(Error::io("lock", &path)(source)),
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // Who holds it is a courtesy; that it is held is the error.
                    let _ = file.read_to_string(&mut holder);
                    let holder = Some(holder.trim()).filter(|id| !id.is_empty()).unwrap_or("unknown").into();
                    return Err(Error::Locked { path: target.into(), holder });
                }
            }
            // The holder before may have removed the file between our opening and our locking: then this is
            // a lock on nothing that others see.
            if is_at(&file, &path) {
                file.set_len(0)
                    .and_then(|()| write!(file, "{}", std::process::id()))
                    .map_err(Error::io("write", &path))?;
                return Ok(Self { file, path });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only where `is_at` can tell that the file has gone. A leftover is taken over by the next process.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(held), Ok(seen)) = (file.metadata(), fs::metadata(path)) else { return false };
    (held.dev(), held.ino()) == (seen.dev(), seen.ino())
}

#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_holds_it_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a.zip");
        let lock = Lock::take(&target).unwrap();
        let Err(Error::Locked { holder, .. }) = Lock::take(&target) else { panic!("taken twice") };
        assert_eq!(holder, std::process::id().to_string());
        drop(lock);
        drop(Lock::take(&target).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
