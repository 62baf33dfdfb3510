//! Every parser of foreign files as a fuzz target (goal R12 of docs/reliability.md): it reads a file and may
//! refuse it, but neither panics, nor hangs, nor takes much memory.
//!
//! CI reads some hundred damaged versions of each target's seeds; `cargo xtask soak` has libFuzzer look for
//! worse.

mod configurations;
mod datasets;
mod detection_folders;
mod pictures;
mod runs;
mod weights;

use std::path::{Path, PathBuf};

/// What a parser said when it refused a file.
pub type Refusal = Box<dyn std::error::Error>;

/// A parser, and files that it takes.
#[derive(Clone, Copy)]
pub struct Target {
    /// What the parser reads.
    pub name: &'static str,
    /// Where the file belongs in the folder of the target.
    file: &'static str,
    /// Files that the parser takes.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Puts what belongs beside the file into the folder.
    prepare: fn(&Path) -> std::io::Result<()>,
    /// Reads the file at the path.
    read: fn(&Path) -> Result<(), Refusal>,
}

/// All targets.
pub fn targets() -> Vec<Target> {
    [
        datasets::TARGETS,
        detection_folders::TARGETS,
        pictures::TARGETS,
        weights::TARGETS,
        configurations::TARGETS,
        runs::TARGETS,
    ]
    .concat()
}

/// The target with a name.
pub fn target(name: &str) -> Option<Target> {
    targets().into_iter().find(|target| target.name == name)
}

/// A target with its folder.
pub struct Bench {
    target: Target,
    path: PathBuf,
    /// Removed with the bench.
    _dir: tempfile::TempDir,
}

impl Bench {
    /// Makes the target's folder, in memory where the system has such a place.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(target: Target) -> std::io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?;
        let path = dir.path().join(target.file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        (target.prepare)(dir.path())?;
        Ok(Self { target, path, _dir: dir })
    }

    /// Where the parser's file belongs.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the parser read a file with these bytes; its answer.
    ///
    /// # Errors
    /// What the parser says against them, or that the file could not be written.
    pub fn read(&self, bytes: &[u8]) -> Result<(), Refusal> {
        std::fs::write(&self.path, bytes)?;
        self.read_there()
    }

    /// Has the parser read the file that lies at [`path`](Self::path).
    ///
    /// # Errors
    /// What the parser says against it.
    pub fn read_there(&self) -> Result<(), Refusal> {
        (self.target.read)(&self.path)
    }
}

/// Nothing beside the file.
fn alone(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// A file of settings, as the commands read it, for parsers that take text.
fn text(path: &Path) -> Result<String, Refusal> {
    Ok(ebm_data::files::read_settings(path)?)
}
