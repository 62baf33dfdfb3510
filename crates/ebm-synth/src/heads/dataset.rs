//! Ages on disk: `images/34_0_0_000000.png` …, `split.csv`, `heads.json`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ebm_seed::Key;
use rayon::prelude::*;

use super::config::HeadConfig;
use super::latents::{YOUNGEST, age_latents};
use super::sample::{check_count, render_age};
use crate::generated_dir::{Kind, make};
use ebm_data::encode::write_png;
use ebm_data::files::write_atomic;
use ebm_data::{Error, Result};

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
const KIND: Kind = Kind { what: "heads", manifest: "heads.json", digest: "age digest", version: 1 };

/// Writes the first `count` samples of `key` with an age into `dir`, or reuses them if `dir` holds them
/// already.
///
/// Sample `i` (from 0) is [`render_age`]'s, whatever `count` is. It is written beside `dir` and renamed at
/// the end, so `dir` never holds half of it.
///
/// # Errors
/// [`Error::Argument`] if the configuration is not valid, `count` is 0, or `dir` holds anything else than
/// these heads; [`Error::Io`] or [`Error::Encode`] if a file cannot be written.
pub fn generate_ages(dir: &Path, config: &HeadConfig, count: usize, key: Key) -> Result<GeneratedAges> {
    config.validate()?;
    check_count(count)?;
    let files = |dir: &Path| {
        let image = |index| {
            let age = age_latents(config, key, index as u64)?.age;
            Ok(dir.join(IMAGES).join(file_name(age, index)))
        };
        (0..count).map(image).chain([Ok(dir.join(SPLIT))]).collect()
    };
    let write = |dir: &Path| write_heads(dir, config, count, key);
    Ok(GeneratedAges::at(dir, make(dir, &KIND, config, count, key, files, write)?))
}

fn write_heads(dir: &Path, config: &HeadConfig, count: usize, key: Key) -> Result<()> {
    let images = dir.join(IMAGES);
    fs::create_dir(&images).map_err(|source| Error::io("create", &images, source))?;
    let write = |index: usize| {
        let (image, age) = render_age(config, key, index as u64)?;
        let name = file_name(age, index);
        write_png(&images.join(&name), &image)?;
        Ok((name, age))
    };
    let written: Vec<(String, u8)> = (0..count).into_par_iter().map(write).collect::<Result<_>>()?;
    let mut table = ",file,age\n".to_owned();
    for (index, (name, age)) in written.iter().enumerate() {
        // A String takes every write.
        let _ = writeln!(table, "{index},{name},{}", age - YOUNGEST);
    }
    write_atomic(&dir.join(SPLIT), table.as_bytes())
}

/// As UTKFace's: age, gender, race, and a number.
fn file_name(age: u8, index: usize) -> String {
    format!("{age}_0_0_{index:06}.png")
}
