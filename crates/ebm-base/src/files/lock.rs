//! Locks that only one process can hold at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::check_output;

/// Reason why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process, perhaps in another container, or another thread of this process holds the lock.
    #[error("process {holder} holds it")]
    Held {
        /// Process number of the holder on its own system, or "unknown".
        holder: String,
    },
    /// The operating system refused, or the lock's path is not a regular file.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Lock that the kernel holds for this process and releases when the process ends in any way. The lock also
/// excludes processes in other containers, where process numbers have another meaning. The lock's file contains
/// the holder's process number and is removed with the lock.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock whose file is `path`, or returns at once if it is held.
    ///
    /// # Errors
    /// [`LockError::Held`] with the holder's number, or [`LockError::Io`].
    pub fn take(path: &Path) -> Result<Self, LockError> {
        loop {
            check_output(path)?;
            let mut file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(source)) => return Err(source.into()),
                Err(TryLockError::WouldBlock) => {
                    // The holder's number only helps the user, so a failure to read it is no error.
                    let holder = fs::read_to_string(path).unwrap_or_default();
                    let holder = Some(holder.trim()).filter(|id| !id.is_empty()).unwrap_or("unknown").into();
                    return Err(LockError::Held { holder });
                }
            }
            // The previous holder may have removed the file after it was opened here and before it was locked.
            // Other processes would then not see this lock.
            if is_same_file(&file, path) {
                file.set_len(0)?;
                write!(file, "{}", std::process::id())?;
                return Ok(Self { file, path: path.into() });
            }
        }
    }

    /// Waits until nobody else holds the lock whose file is `path`, and takes it.
    ///
    /// # Errors
    /// The errors of the operating system.
    pub fn wait(path: &Path) -> io::Result<Self> {
        loop {
            match Self::take(path) {
                Err(LockError::Held { .. }) => std::thread::sleep(Duration::from_millis(5)),
                Err(LockError::Io(source)) => return Err(source),
                Ok(lock) => return Ok(lock),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file is removed only where `is_same_file` can detect a removal. Otherwise the next process takes the file
        // over.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// Creates the file `path`, locked. What a process that was killed left there is removed. Returns none if a process
/// that runs has the file, or if the system refuses.
pub(super) fn create_locked(path: &Path) -> Option<File> {
    check_output(path).ok()?;
    // The lock of what is left is held until its name is gone.
    if let Ok(left) = File::options().write(true).open(path)
        && left.try_lock().is_ok()
        && is_same_file(&left, path)
    {
        fs::remove_file(path).ok()?;
    }
    let file = File::options().write(true).create_new(true).open(path).ok()?;
    match file.try_lock() {
        // Another process may have taken the new file for one that was left.
        Ok(()) => is_same_file(&file, path).then_some(file),
        Err(TryLockError::WouldBlock) => None,
        // There are no locks here.
        Err(TryLockError::Error(_)) => fs::remove_file(path).ok().and(None),
    }
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(held), Ok(seen)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (held.dev(), held.ino()) == (seen.dev(), seen.ino())
}

#[cfg(not(unix))]
fn is_same_file(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_second_is_told_who_holds_it_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, "999999999").unwrap();
        let lock = Lock::take(&path).unwrap();
        let Err(LockError::Held { holder }) = Lock::take(&path) else { panic!("taken twice") };
        assert_eq!(holder, std::process::id().to_string());
        drop(lock);
        drop(Lock::take(&path).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn those_who_wait_have_it_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (path, inside) = (dir.path().join("lock"), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _lock = Lock::wait(&path).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [victim, path] = ["victim", "lock"].map(|name| dir.path().join(name));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(Lock::take(&path).unwrap_err().to_string().contains("a symbolic link"));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}
