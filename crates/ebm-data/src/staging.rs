//! A folder that is filled beside its final place, so that nobody sees half of it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How the names of directories end that are not whole yet.
const PARTIAL: &str = ".partial";

/// Removes what killed processes left of the directory `name`, where the system tells which processes there are.
fn remove_stale(parent: &Path, name: &std::ffi::OsStr) -> Result<()> {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return Ok(());
    }
    let prefix = format!(".{}.", name.to_string_lossy());
    let list = fs::read_dir(parent).map_err(|source| Error::io("read", parent, source))?;
    for entry in list {
        let entry = entry.map_err(|source| Error::io("read", parent, source))?;
        let found = entry.file_name();
        let middle = found.to_str().and_then(|found| found.strip_prefix(&prefix)?.strip_suffix(PARTIAL));
        let owner = middle.and_then(|middle| middle.split_once('-')?.0.parse::<u32>().ok());
        if owner.is_some_and(|owner| !processes.join(owner.to_string()).exists()) {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(|source| Error::io("remove", &path, source))?;
        }
    }
    Ok(())
}

/// A directory beside the final one, removed unless it was renamed.
pub struct Staging(PathBuf);

impl Staging {
    /// A new folder in that of `dir`, which is made if it does not exist.
    ///
    /// # Errors
    /// [`Error::Argument`] if `dir` has no name, [`Error::Io`].
    pub fn beside(dir: &Path) -> Result<Self> {
        let Some(name) = dir.file_name() else {
            let detail = format!("{} does not name a directory to be made", dir.display());
            return Err(Error::Argument { name: "dir", detail });
        };
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|source| Error::io("create", parent, source))?;
        remove_stale(parent, name)?;
        // Another thread of this process may be at work: take a fresh name.
        let mut number = 0u32;
        loop {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{number}{PARTIAL}", std::process::id()));
            let staging = parent.join(hidden);
            match fs::create_dir(&staging) {
                Ok(()) => return Ok(Self(staging)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(source) => return Err(Error::io("create", &staging, source)),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Absent after the rename; a failure here must not hide the error that led to it.
        let _ = fs::remove_dir_all(&self.0);
    }
}
