//! A run, as its folder holds it.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use ebm_data::files::read_settings;
use ebm_files::read_limited;
use serde_json::Value;

use crate::comparison::Source;
use crate::curves::Training;
use crate::tables::Table;
use crate::{Error, MAX_TEXT, Result};

/// What a run's folder holds. Nothing of it has to be there.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is called in the page.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
    /// The command that made it, where it says so.
    pub command: Option<String>,
    /// Settings, of the run and of every training in it.
    pub settings: Vec<Source>,
    /// Environments, likewise.
    pub environments: Vec<Source>,
    /// Its trainings.
    pub trainings: Vec<Training>,
    /// The tables of `results.json` and of files that end in `.csv`.
    pub tables: Vec<Table>,
    /// `report.md`.
    pub report: Option<String>,
    /// The paths of all files in it, but for checkpoints.
    pub files: Vec<String>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// How deep below a run its trainings and pictures are looked for.
const DEPTH: usize = 3;
/// More files than that are not looked at.
const MAX_FILES: usize = 5000;

impl Run {
    /// Reads the run in `folder`, which is called `name`. What is missing or cannot be read is noted.
    ///
    /// # Errors
    /// [`Error::NoFolder`], [`Error::NoRun`].
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        if !folder.is_dir() {
            return Err(Error::NoFolder { path: folder.to_owned() });
        }
        let mut walk =
            Walk { root: folder, files: Vec::new(), folders: vec![PathBuf::new()], notes: Vec::new() };
        walk.enter(Path::new(""), DEPTH);
        let Walk { mut files, folders, notes, .. } = walk;
        files.sort();
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let mut run = Self {
            name,
            folder,
            files,
            notes,
            command: None,
            settings: Vec::new(),
            environments: Vec::new(),
            trainings: Vec::new(),
            tables: Vec::new(),
            report: None,
        };
        for inner in folders {
            run.read_folder(&inner);
        }
        run.read_results();
        let holds = !(run.settings.is_empty() && run.trainings.is_empty() && run.tables.is_empty());
        let has = |file: &str| run.files.iter().any(|found| found == file);
        if holds || has("report.md") || has("results.json") || has("config.toml") {
            return Ok(run);
        }
        Err(Error::NoRun { path: run.folder })
    }

    /// What is said of the training in `inner`, a path in the run.
    fn label(&self, inner: &str) -> String {
        if inner.is_empty() { self.name.clone() } else { format!("{}/{inner}", self.name) }
    }

    /// Reads settings, environment and curves of the run itself or of a folder in it.
    fn read_folder(&mut self, inner: &Path) {
        let folder = self.folder.join(inner);
        let inner = inner.to_string_lossy().replace('\\', "/");
        let label = self.label(&inner);
        let path = |file: &str| if inner.is_empty() { file.to_owned() } else { format!("{inner}/{file}") };
        for file in settings_files(&self.files, &inner) {
            let read = read_settings(&folder.join(&file)).map_err(|error| error.to_string());
            let parsed =
                read.and_then(|text| toml::from_str::<Value>(&text).map_err(|error| error.to_string()));
            if let Some(value) = self.noted(&path(&file), parsed) {
                self.settings.push(Source::new(&label, &value));
            }
        }
        if self.files.contains(&path("environment.json")) {
            let read = read_settings(&folder.join("environment.json")).map_err(|error| error.to_string());
            let parsed = read.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
            if let Some(value) = self.noted(&path("environment.json"), parsed) {
                self.environments.push(Source::new(&label, &value));
            }
        }
        if let Some(training) = Training::read(&folder, inner.clone()) {
            if training.series.is_empty() {
                self.notes.push(format!("{label}: it holds the log of a training, and no step"));
            }
            self.notes.extend(training.notes.iter().map(|note| format!("{label}: {note}")));
            if !self.files.contains(&path("config.toml")) {
                self.notes.push(format!("{label}: there is no config.toml, so its settings are not known"));
            }
            self.trainings.push(training);
        }
    }

    /// Reads the report and the tables, which lie in the run's folder itself.
    fn read_results(&mut self) {
        let own: Vec<String> = self.files.iter().filter(|file| !file.contains('/')).cloned().collect();
        for file in own {
            let bytes =
                || read_limited(&self.folder.join(&file), MAX_TEXT).map_err(|error| error.to_string());
            match file.as_str() {
                "report.md" => {
                    let text = bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                    self.report = self.noted(&file, text);
                }
                "results.json" => {
                    let parsed = bytes().and_then(|bytes| {
                        serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
                    });
                    if let Some(value) = self.noted(&file, parsed) {
                        self.command = value.get("command").and_then(Value::as_str).map(str::to_owned);
                        self.tables.extend(Table::from_json(&file, &value));
                    }
                }
                _ if file.ends_with(".csv") => {
                    let parsed = bytes()
                        .and_then(|bytes| Table::from_csv(&file, &bytes).map_err(|error| error.to_string()));
                    let table = self.noted(&file, parsed);
                    self.tables.extend(table);
                }
                _ => {}
            }
        }
    }

    /// The value, or a note why there is none.
    fn noted<T>(&mut self, file: &str, read: std::result::Result<T, impl Display>) -> Option<T> {
        read.map_err(|error| {
            let reason = error.to_string().replace(&format!("{}/", self.folder.display()), "");
            let reason =
                reason.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
            self.notes.push(format!("{}: {file} is left out: {reason}", self.name));
        })
        .ok()
    }
}

/// The settings among the files of `inner`: `config.toml`, or, as a fit to a table has it, another.
fn settings_files(files: &[String], inner: &str) -> Vec<String> {
    let own = files.iter().filter_map(|file| match file.rsplit_once('/') {
        Some((folder, name)) => (folder == inner).then_some(name),
        None => inner.is_empty().then_some(file.as_str()),
    });
    let found: Vec<String> = own.filter(|name| name.ends_with(".toml")).map(str::to_owned).collect();
    let config: Vec<String> = found.iter().filter(|name| *name == "config.toml").cloned().collect();
    if config.is_empty() { found } else { config }
}

/// The files below a folder. Links are not followed, hidden files and checkpoints not entered.
struct Walk<'a> {
    root: &'a Path,
    files: Vec<String>,
    folders: Vec<PathBuf>,
    notes: Vec<String>,
}

impl Walk<'_> {
    fn enter(&mut self, inner: &Path, depth: usize) {
        let entries = match std::fs::read_dir(self.root.join(inner)) {
            Ok(entries) => entries,
            Err(error) => return self.notes.push(format!("{}: {error}", inner.display())),
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            let path = inner.join(&name);
            let hidden = name.to_string_lossy().starts_with('.') || name == "checkpoints";
            if self.files.len() >= MAX_FILES {
                self.notes.push(format!("only the first {MAX_FILES} files were looked at"));
                return;
            }
            if kind.is_dir() && depth > 0 && !hidden {
                self.folders.push(path.clone());
                self.enter(&path, depth - 1);
            } else if kind.is_file() && !hidden {
                self.files.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
}
