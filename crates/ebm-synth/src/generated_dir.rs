//! Generated datasets in directories: existing ones are reused, none is half written, other files are not
//! overwritten.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ebm_base::Key;
use ebm_base::files::{Lock, remove_all};
use ebm_data::fetch::hex;
use ebm_data::files::{create_dir, read_limited, write_atomic};
use ebm_data::{Error, Result};
use rand::RngCore as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Kind of a generated dataset.
pub(crate) struct Kind {
    /// Plural noun for messages, such as "scenes".
    pub what: &'static str,
    /// Name of the file with the digest of the dataset.
    pub manifest: &'static str,
    /// Name of the child of the dataset's key that gives the digest; no sample may use this name.
    pub digest: &'static str,
    /// Version, to be increased by every change that alters the samples of a given key.
    pub version: u32,
}

/// Largest size of a manifest, in bytes.
const MANIFEST_LIMIT: u64 = 1 << 20;

/// Digest of the inputs of a dataset, and the size of all its files. Both together show that a directory is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    digest: String,
    bytes: u64,
}

/// Makes the dataset of `config`, `count` and `key` in `dir` unless it exists. `write` writes its files into a
/// directory, and `files` returns their paths in it.
///
/// Everything is written to `.<name>.partial` beside `dir`, which is renamed at the end. The holder of the lock
/// `.<name>.lock` owns that directory; files in it when the lock is taken come from a killed process.
///
/// # Errors
/// [`Error::Argument`] if `dir` has no name or holds anything else; the errors of `write`; [`Error::Io`].
pub(crate) fn make(
    dir: &Path,
    kind: &Kind,
    config: &impl Serialize,
    count: usize,
    key: Key,
    files: impl Fn(&Path) -> Vec<PathBuf>,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let fail = |error: serde_json::Error| Error::Argument { name: "config", detail: error.to_string() };
    let digest = digest(kind, &serde_json::to_string(config).map_err(fail)?, count, key);
    // Too small if a file is missing or cut short.
    let size = |dir: &Path| -> u64 {
        files(dir).par_iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum()
    };
    let whole = || holds(dir, kind, &digest, &size);
    if whole()? {
        return Ok(());
    }
    let detail = format!("{} does not name a directory to be made", dir.display());
    let name = dir.file_name().ok_or(Error::Argument { name: "dir", detail })?.display();
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dir(parent)?;
    let [partial, lock] = ["partial", "lock"].map(|suffix| parent.join(format!(".{name}.{suffix}")));
    let _lock = Lock::wait(&lock).map_err(|source| Error::io("lock", &lock, source))?;
    // Another process may have made the same dataset meanwhile.
    if whole()? {
        return Ok(());
    }
    remove_all(&partial).map_err(|source| Error::io("remove what is left in", &partial, source))?;
    let made = create_dir(&partial).and_then(|()| write(&partial)).and_then(|()| {
        let manifest = Manifest { digest: digest.clone(), bytes: size(&partial) };
        write_json(&partial.join(kind.manifest), &manifest)?;
        fs::rename(&partial, dir).map_err(|source| Error::io("move the finished files to", dir, source))
    });
    // Absent after the rename; a failure here must not hide the error that led to it.
    let _ = remove_all(&partial);
    made
}

/// Writes `value` as JSON, atomically.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let fail = |error: serde_json::Error| Error::io("write", path, error.into());
    write_atomic(path, &serde_json::to_vec(value).map_err(fail)?)
}

/// Returns a digest of all inputs that determine the bytes.
fn digest(kind: &Kind, config: &str, count: usize, key: Key) -> String {
    let mut bytes = [0; 16];
    let key = key.split(kind.digest).split(config).index(count as u64).index(u64::from(kind.version));
    key.rng().fill_bytes(&mut bytes);
    hex(bytes)
}

/// Returns whether `dir` holds the whole dataset; `false` if it does not exist or is empty.
fn holds(dir: &Path, kind: &Kind, digest: &str, size: &impl Fn(&Path) -> u64) -> Result<bool> {
    let what = kind.what;
    let occupied = |why: String| Error::Argument {
        name: "dir",
        detail: format!("{} holds {why}; remove it or choose another directory", dir.display()),
    };
    match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(false) => {}
        Ok(true) => return Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(Error::io("list", dir, source)),
    }
    let manifest = read_limited(&dir.join(kind.manifest), MANIFEST_LIMIT)
        .map_err(|_| occupied(format!("files but no generated {what}")))?;
    let manifest: Manifest =
        serde_json::from_slice(&manifest).map_err(|_| occupied(format!("{what} of another version")))?;
    if manifest.digest != digest {
        return Err(occupied(format!("{what} of another configuration, count, seed or version")));
    }
    if size(dir) != manifest.bytes {
        return Err(occupied(format!("these {what}, but files are missing or cut short")));
    }
    Ok(true)
}
