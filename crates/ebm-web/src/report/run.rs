//! A run, read from its folder.

use std::path::{Path, PathBuf};

use ebm_base::files::read_limited;
use serde_json::Value;

use super::comparison::Source;
use super::curves::Training;
use super::tables::Table;
use crate::{Error, Result};

/// Contents of a run's folder. Every part may be missing.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Name of the run in the page.
    pub name: String,
    pub(super) folder: PathBuf,
    /// Command that created the run, if it is recorded.
    pub(super) command: Option<String>,
    /// Settings of the run and of every training in it.
    pub(super) settings: Vec<Source>,
    /// Environments of the run and of every training in it.
    pub(super) environments: Vec<Source>,
    pub(super) trainings: Vec<Training>,
    /// Tables of `results.json` and of `.csv` files.
    pub(super) tables: Vec<Table>,
    /// Text of `report.md`.
    pub(super) report: Option<String>,
    /// Paths of all files in it, without checkpoints.
    pub(super) files: Vec<String>,
    /// Notes about files that could not be read.
    pub notes: Vec<String>,
}

/// Depth below a run to which trainings and pictures are searched.
const DEPTH: usize = 3;
/// Largest number of files that are considered.
const MAX_FILES: usize = 5000;
/// Largest size of a file of results that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

impl Run {
    /// Reads the run in `folder` under the name `name`. Missing and unreadable parts become notes.
    ///
    /// # Errors
    /// [`Error::NoFolder`], [`Error::NoRun`].
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        if !folder.is_dir() {
            return Err(Error::NoFolder(folder.to_owned()));
        }
        let mut run = Self { name: name.to_owned(), folder: folder.to_owned(), ..Self::default() };
        let mut folders = vec![String::new()];
        run.walk("", DEPTH, &mut folders);
        run.files.sort();
        for inner in &folders {
            run.read_folder(inner);
        }
        run.read_results();
        let holds = !(run.settings.is_empty() && run.trainings.is_empty() && run.tables.is_empty());
        if holds || ["report.md", "results.json", "config.toml"].iter().any(|file| run.has(file)) {
            return Ok(run);
        }
        Err(Error::NoRun(run.folder))
    }

    fn has(&self, path: &str) -> bool {
        self.files.iter().any(|found| found == path)
    }

    /// Lists the files below `inner`. Links, hidden files and checkpoints are skipped.
    fn walk(&mut self, inner: &str, depth: usize, folders: &mut Vec<String>) {
        let entries = match std::fs::read_dir(self.folder.join(inner)) {
            Ok(entries) => entries,
            Err(error) => return self.notes.push(format!("{inner}: {error}")),
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            let name = name.to_string_lossy();
            if self.files.len() >= MAX_FILES {
                self.notes.push(format!("only the first {MAX_FILES} files were looked at"));
                return;
            }
            let path = within(inner, &name);
            match name.starts_with('.') || name == "checkpoints" {
                false if kind.is_dir() && depth > 0 => {
                    folders.push(path.clone());
                    self.walk(&path, depth - 1, folders);
                }
                false if kind.is_file() => self.files.push(path),
                _ => {}
            }
        }
    }

    /// Reads settings, environment and curves of the run itself or of a folder in it.
    fn read_folder(&mut self, inner: &str) {
        let label = within(&self.name, inner);
        let label = label.trim_end_matches('/');
        let [config, environment] = ["config.toml", "environment.json"].map(|file| within(inner, file));
        // A fit to a table has a settings file with another name.
        let is_own = |file: &&String| {
            file.rsplit_once('/').map_or("", |(folder, _)| folder) == inner && file.ends_with(".toml")
        };
        let mut settings: Vec<String> = self.files.iter().filter(is_own).cloned().collect();
        let has_config = settings.contains(&config);
        if has_config {
            settings = vec![config];
        }
        for file in settings {
            let value = self.parsed(&file, |text| toml::from_str::<Value>(text).map_err(|e| e.to_string()));
            self.settings.extend(value.map(|value| Source::new(label, &value)));
        }
        if self.has(&environment) {
            let value = self.parsed(&environment, json);
            self.environments.extend(value.map(|value| Source::new(label, &value)));
        }
        if let Some(training) = Training::read(&self.folder.join(inner), inner.to_owned()) {
            if training.series.is_empty() {
                self.notes.push(format!("{label}: it holds the log of a training, and no step"));
            }
            self.notes.extend(training.notes.iter().map(|note| format!("{label}: {note}")));
            if !has_config {
                self.notes.push(format!("{label}: there is no config.toml, so its settings are not known"));
            }
            self.trainings.push(training);
        }
    }

    /// Reads the report and the tables from the run's own folder.
    fn read_results(&mut self) {
        let own: Vec<String> = self.files.iter().filter(|file| !file.contains('/')).cloned().collect();
        for file in own {
            if file == "report.md" {
                self.report = self.parsed(&file, |text| Ok(text.to_owned()));
            } else if file == "results.json" {
                let Some(value) = self.parsed(&file, json) else { continue };
                self.command = value.get("command").and_then(Value::as_str).map(str::to_owned);
                self.tables.extend(Table::from_json(&file, &value));
            } else if file.ends_with(".csv") {
                let table =
                    self.parsed(&file, |text| Table::from_csv(&file, text).map_err(|e| e.to_string()));
                self.tables.extend(table);
            }
        }
    }

    /// Reads and parses a file; a failure becomes a note.
    fn parsed<T>(&mut self, file: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let read = read_limited(&self.folder.join(file), MAX_BYTES).map_err(|error| error.to_string());
        let parsed = read.and_then(|bytes| parse(&String::from_utf8_lossy(&bytes)));
        parsed
            .map_err(|reason| {
                let lines = reason.lines().map(str::trim).filter(|line| !line.is_empty());
                let reason = lines.collect::<Vec<_>>().join("; ");
                self.notes.push(format!("{}: {file} is left out: {reason}", self.name));
            })
            .ok()
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Returns the path of `name` in the folder `inner`, which may be empty.
fn within(inner: &str, name: &str) -> String {
    if inner.is_empty() { name.to_owned() } else { format!("{inner}/{name}") }
}
