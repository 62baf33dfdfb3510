//! A folder that is filled beside its final place, so that nobody sees half of it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ebm_base::files::{Lock, LockError, remove_all};

use crate::error::{Error, Result};

/// What to do while another process fills the same folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Nothing: it is an error.
    Refuse,
    /// Wait, since what it does may be the same.
    Wait,
}

/// A directory `.<name>.partial` beside the final one, `<name>`, removed unless it becomes that. Whoever has
/// the lock `.<name>.lock` owns it, so that what lies there when the lock was taken is a killed process'.
pub struct Staging {
    path: PathBuf,
    target: PathBuf,
    // After the folder has gone.
    _lock: Lock,
}

impl Staging {
    /// A new folder in that of `dir`, which is made if it does not exist. Afterwards another process may have
    /// finished `dir`.
    ///
    /// # Errors
    /// [`Error::Argument`] if `dir` has no name, or is there and no folder; [`Error::Failure`] if another
    /// process is filling it and that is to be refused; [`Error::Io`].
    pub fn beside(dir: &Path, busy: Busy) -> Result<Self> {
        let unusable =
            |why: &str| Error::Argument { name: "dir", detail: format!("{} {why}", dir.display()) };
        let name = dir.file_name().ok_or_else(|| unusable("does not name a directory to be made"))?;
        if dir.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return Err(unusable("is no directory, or a link to one; give that itself, or another name"));
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|source| Error::io("create", parent, source))?;
        let hidden = |suffix: &str| {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(suffix);
            parent.join(hidden)
        };
        let (path, locked) = (hidden(".partial"), hidden(".lock"));
        let lock = match busy {
            Busy::Wait => Lock::wait(&locked).map_err(LockError::Io),
            Busy::Refuse => Lock::take(&locked),
        };
        let lock = lock.map_err(|error| Error::lock(&locked, dir, error))?;
        remove_all(&path).map_err(|source| Error::io("remove what is left in", &path, source))?;
        fs::create_dir(&path).map_err(|source| Error::io("create", &path, source))?;
        Ok(Self { path, target: dir.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives `whole`, which is this folder or one in it, the final name. An empty folder there gives way.
    ///
    /// # Errors
    /// [`Error::Io`], also if the final directory holds anything.
    pub fn finish(self, whole: &Path) -> Result<()> {
        fs::rename(whole, &self.target)
            .map_err(|source| Error::io("move the finished files to", &self.target, source))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Absent after the rename; a failure here must not hide the error that led to it.
        let _ = remove_all(&self.path);
    }
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
    fn one_fills_a_folder_and_what_a_killed_process_left_goes() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("set");
        fs::create_dir_all(dir.path().join(".set.partial/deep")).unwrap();
        let first = Staging::beside(&target, Busy::Refuse).unwrap();
        assert_eq!(fs::read_dir(first.path()).unwrap().count(), 0);
        fs::write(first.path().join("file"), "content").unwrap();
        let error = Staging::beside(&target, Busy::Refuse).err().unwrap().to_string();
        assert!(error.contains(&format!("process {} is writing here", std::process::id())), "{error}");
        let path = first.path().to_owned();
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "content");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Staging::beside(&target, Busy::Wait).map(drop));
            first.finish(&path).unwrap();
            second.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "content");
        assert_eq!(names(dir.path()), ["set"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_files_in_its_place_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, victim] = ["file", "link", "victim"].map(|name| dir.path().join(name));
        fs::write(&file, "mine").unwrap();
        fs::create_dir(&victim).unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        for path in [&file, &link] {
            assert!(matches!(Staging::beside(path, Busy::Refuse), Err(Error::Argument { name: "dir", .. })));
        }
        // A planted link loses its name; what it leads to stays.
        std::os::unix::fs::symlink(&victim, dir.path().join(".new.partial")).unwrap();
        fs::write(victim.join("precious"), "").unwrap();
        drop(Staging::beside(&dir.path().join("new"), Busy::Refuse).unwrap());
        assert_eq!(names(dir.path()), ["file", "link", "victim"]);
        assert_eq!(names(&victim), ["precious"]);
    }
}
