//! Directory of a run: its configuration, the machine it ran on, and the lock that excludes other processes.
//!
//! ```text
//! runs/<name>/
//!   lock               held while a process uses the run; contains its process id
//!   environment.json   what ran, and on which machine
//!   config.toml        the resolved configuration; written last, so its presence means a run
//!   metrics.jsonl      crate::metrics
//!   checkpoints/       crate::checkpoint
//! ```

use crate::error::{Error, Result};
use crate::files;
use ebm_base::files::{Lock, LockError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const CONFIG: &str = "config.toml";
const ENVIRONMENT: &str = "environment.json";
const LOCK: &str = "lock";

/// Program and machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Commit of the program's source, if known.
    pub git_commit: Option<String>,
    /// Versions of the program, its libraries and its compiler, by name.
    pub versions: BTreeMap<String, String>,
    /// Machine by name of the property: device, threads, processor.
    pub machine: BTreeMap<String, String>,
}

/// Run that this process holds. The lock is released when the value is dropped or the process ends, in any way.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    config: String,
    _lock: Lock,
}

impl RunDir {
    /// Creates `<root>/<name>` with its configuration and environment and takes its lock.
    ///
    /// # Errors
    /// [`Error::RunName`], [`Error::Refused`], [`Error::DiskFull`], [`Error::Io`].
    pub fn create(root: &Path, name: &str, config: &str, environment: &Environment) -> Result<Self> {
        Self::check_name(name)?;
        let path = root.join(name);
        files::create_dir(&path)?;
        let lock = lock(&path)?;
        if path.join(CONFIG).exists() {
            return Err(Error::run_exists(&path));
        }
        let file = path.join(ENVIRONMENT);
        let json = serde_json::to_vec_pretty(environment).map_err(Error::json(&file))?;
        files::replace(&file, &json)?;
        files::replace(&path.join(CONFIG), config.as_bytes())?;
        Ok(Self { path, config: config.into(), _lock: lock })
    }

    /// Refuses an invalid name of a run.
    ///
    /// # Errors
    /// [`Error::RunName`].
    pub(crate) fn check_name(name: &str) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            return Err(Error::RunName(name.into()));
        }
        Ok(())
    }

    /// Returns whether there is a run at `path`.
    pub fn exists(path: &Path) -> bool {
        path.join(CONFIG).exists()
    }

    /// Reads the configuration of the run at `path`, which another process may hold.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no run.
    pub(crate) fn read_config(path: &Path) -> Result<String> {
        let file = path.join(CONFIG);
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let bytes = files::read_if_exists(&file, files::MAX_TEXT_BYTES)?;
        let text = bytes.ok_or_else(missing).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        });
        text.map_err(|source| files::io_error(&file, "read", 0, source))
    }

    /// Opens an existing run to resume it and takes its lock.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no run, [`Error::Refused`] if another process holds it.
    pub fn open(path: &Path) -> Result<Self> {
        Self::read_config(path)?;
        let lock = lock(path)?;
        // Read again, now that no other process can be creating the run.
        Ok(Self { path: path.into(), config: Self::read_config(path)?, _lock: lock })
    }

    /// Replaces the configuration if `config` differs.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create) if it cannot be written.
    pub(crate) fn configure(&mut self, config: &str) -> Result<()> {
        if self.config != config {
            files::replace(&self.path.join(CONFIG), config.as_bytes())?;
            config.clone_into(&mut self.config);
        }
        Ok(())
    }

    /// Returns the directory of the run.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the configuration in the run's directory.
    pub fn config(&self) -> &str {
        &self.config
    }
}

/// Takes the lock of a run's directory and removes the unfinished files of a killed process.
fn lock(run: &Path) -> Result<Lock> {
    let path = run.join(LOCK);
    let lock = Lock::take(&path).map_err(|error| match error {
        LockError::Held { holder } => {
            let remedy = "wait for it or choose another name";
            Error::Refused(format!("{} is in use by process {holder}; {remedy}", run.display()))
        }
        LockError::Io(source) => files::io_error(&path, "lock", 0, source),
    })?;
    files::remove_unfinished(run)?;
    Ok(lock)
}
