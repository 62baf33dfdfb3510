//! Ages on disk: `images/34_0_0_000000.png` …, `split.csv`, `heads.json`.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ebm_seed::Key;
use rand::RngCore as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::config::HeadConfig;
use super::latents::{YOUNGEST, age_latents};
use super::sample::{check_count, render_age};
use crate::encode::write_png;
use crate::files::{read_limited, write_atomic};
use crate::{Error, Result};

/// Where generated ages lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedAges {
    /// The directory of the images.
    pub images: PathBuf,
    /// The split file `,file,age` of Cao et al.; its ages count from 21.
    pub split: PathBuf,
    /// Whether they were there already.
    pub reused: bool,
}

impl GeneratedAges {
    fn at(dir: &Path, reused: bool) -> Self {
        Self { images: dir.join(IMAGES), split: dir.join(SPLIT), reused }
    }
}

const IMAGES: &str = "images";
const SPLIT: &str = "split.csv";
const MANIFEST: &str = "heads.json";
/// More than any manifest has.
const MANIFEST_LIMIT: u64 = 1 << 16;
/// To be raised by every change that alters the heads of a given key.
const GENERATOR: u32 = 1;

/// Writes the first `count` samples of `key` with an age into `dir`, or reuses them if `dir` holds them already.
///
/// Sample `i` (from 0) is [`render_age`]'s, whatever `count` is. It is written beside `dir` and renamed at the end, so
/// `dir` never holds half of it.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid, `count` is 0, or `dir` holds anything else than these heads;
/// [`Error::Io`] or [`Error::Encode`] if a file cannot be written.
pub fn generate_ages(dir: &Path, config: &HeadConfig, count: usize, key: Key) -> Result<GeneratedAges> {
    config.validate()?;
    check_count(count)?;
    let digest = digest(config, count, key)?;
    let whole = || holds_heads(dir, &digest, config, count, key);
    if whole()? {
        return Ok(GeneratedAges::at(dir, true));
    }
    let staging = Staging::beside(dir)?;
    write_heads(&staging.0, config, count, key, &digest)?;
    match fs::rename(&staging.0, dir) {
        Ok(()) => Ok(GeneratedAges::at(dir, false)),
        // Another run may have finished the same heads meanwhile.
        Err(_) if whole()? => Ok(GeneratedAges::at(dir, true)),
        Err(source) => Err(Error::io("move the finished heads to", dir, source)),
    }
}

/// What made the heads, and the size of all files: enough to tell whether a directory holds them whole.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    digest: String,
    bytes: u64,
    count: usize,
    config: HeadConfig,
}

/// A digest of all that determines the bytes.
fn digest(config: &HeadConfig, count: usize, key: Key) -> Result<String> {
    let config = serde_json::to_string(config)
        .map_err(|error| Error::Argument { name: "config", detail: error.to_string() })?;
    let mut bytes = [0; 16];
    let key = key.split("age digest").split(&config).index(count as u64).index(u64::from(GENERATOR));
    key.rng().fill_bytes(&mut bytes);
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether `dir` holds all of the heads; `false` if it does not exist or is empty.
fn holds_heads(dir: &Path, digest: &str, config: &HeadConfig, count: usize, key: Key) -> Result<bool> {
    let occupied = |why: &str| Error::Argument {
        name: "dir",
        detail: format!("{} {why}; remove it or choose another directory", dir.display()),
    };
    match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(Error::io("list", dir, source)),
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(false);
            }
        }
    }
    let manifest = read_limited(&dir.join(MANIFEST), MANIFEST_LIMIT)
        .map_err(|_| occupied("holds files but no generated heads"))?;
    let manifest: Manifest =
        serde_json::from_slice(&manifest).map_err(|_| occupied("holds heads of another version"))?;
    if manifest.digest != digest {
        return Err(occupied("holds heads of another configuration, count, seed or version"));
    }
    let mut total = size_of(&dir.join(SPLIT)).unwrap_or(0);
    for index in 0..count {
        let age = age_latents(config, key, index as u64)?.age;
        // A file that is missing makes the sum too small.
        total += size_of(&dir.join(IMAGES).join(file_name(age, index))).unwrap_or(0);
    }
    if total == manifest.bytes {
        Ok(true)
    } else {
        Err(occupied("holds these heads, but files are missing or cut short"))
    }
}

fn size_of(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).map_err(|source| Error::io("read", path, source))?.len())
}

/// A directory beside the final one, removed unless it was renamed.
struct Staging(PathBuf);

impl Staging {
    fn beside(dir: &Path) -> Result<Self> {
        let Some(name) = dir.file_name() else {
            let detail = format!("{} does not name a directory to be made", dir.display());
            return Err(Error::Argument { name: "dir", detail });
        };
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|source| Error::io("create", parent, source))?;
        // A run that was killed leaves its directory behind, and another may be at work: take a fresh name.
        let mut number = 0u32;
        loop {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{number}.partial"));
            let staging = parent.join(hidden);
            match fs::create_dir(&staging) {
                Ok(()) => return Ok(Self(staging)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(source) => return Err(Error::io("create", &staging, source)),
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Absent after the rename; a failure here must not hide the error that led to it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_heads(dir: &Path, config: &HeadConfig, count: usize, key: Key, digest: &str) -> Result<()> {
    let images = dir.join(IMAGES);
    fs::create_dir(&images).map_err(|source| Error::io("create", &images, source))?;
    let write = |index: usize| {
        let (image, age) = render_age(config, key, index as u64)?;
        let name = file_name(age, index);
        let path = images.join(&name);
        write_png(&path, &image)?;
        Ok((size_of(&path)?, name, age))
    };
    let written: Vec<(u64, String, u8)> = (0..count).into_par_iter().map(write).collect::<Result<_>>()?;
    let mut table = ",file,age\n".to_owned();
    for (index, (_, name, age)) in written.iter().enumerate() {
        // A String takes every write.
        let _ = writeln!(table, "{index},{name},{}", age - YOUNGEST);
    }
    write_atomic(&dir.join(SPLIT), table.as_bytes())?;
    let bytes = table.len() as u64 + written.iter().map(|file| file.0).sum::<u64>();
    let manifest = Manifest { digest: digest.to_owned(), bytes, count, config: config.clone() };
    let path = dir.join(MANIFEST);
    let manifest = serde_json::to_vec(&manifest).map_err(|error| Error::io("write", &path, error.into()))?;
    write_atomic(&path, &manifest)
}

/// As UTKFace's: age, gender, race, and a number.
fn file_name(age: u8, index: usize) -> String {
    format!("{age}_0_0_{index:06}.png")
}
