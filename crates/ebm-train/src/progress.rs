//! What a long computation tells its caller.

use std::path::{Path, PathBuf};

use crate::checkpoint::sha256;
use crate::error::{Error, Result};
use crate::run_dir::{Environment, RunDir};
use crate::settings;

/// Watches the stages of a reproduction; the library itself never prints.
pub trait Progress {
    /// A stage of `total` units begins.
    fn begin(&mut self, stage: &str, total: usize);

    /// `done` units of the stage that has just begun were done by an earlier process.
    fn resumed(&mut self, _done: usize) {}

    /// `done` units of the stage are done; `note` is worth showing beside it.
    fn advance(&mut self, done: usize, note: &str);

    /// The stage is over.
    fn end(&mut self);

    /// Something that the user should read.
    fn message(&mut self, text: &str);

    /// Asked when a run begins, whose directory records it: what runs, and on which machine.
    fn environment(&self) -> Environment {
        Environment::default()
    }

    /// Asked after every step of a training. Where true, for example after a signal, it commits a checkpoint
    /// and ends.
    fn stop_requested(&mut self) -> bool {
        false
    }
}

/// Where and how a run is trained.
#[derive(Clone, Copy, Debug)]
pub struct RunSpec<'a> {
    /// Holds the run's directory.
    pub root: &'a Path,
    /// The directory's name.
    pub name: &'a str,
    /// The resolved configuration.
    pub config: &'a str,
    /// Updates.
    pub steps: usize,
    /// Updates of the whole training, where `steps` are those until a pause.
    pub whole: Option<usize>,
    /// The root seed.
    pub seed: u64,
    /// A checkpoint is committed every so many steps and at the end; 0: at the end only.
    pub checkpoint_every: usize,
    /// Whether to go on where an earlier process stopped, if there was one. Otherwise there must be no such
    /// run.
    pub resume: bool,
    /// Whether nothing is said of where it goes on: this process has just paused there.
    pub is_quiet: bool,
    /// The last names of settings that may differ from those of the run that it goes on with, such as
    /// `steps`: a run that is over becomes longer.
    pub changeable: &'a [&'a str],
}

impl<'a> RunSpec<'a> {
    /// Steps between checkpoints where nobody says otherwise.
    pub const CHECKPOINT_EVERY: usize = 200;

    /// A new run with the usual checkpoints.
    pub fn new(root: &'a Path, name: &'a str, config: &'a str, steps: usize, seed: u64) -> Self {
        Self {
            root,
            name,
            config,
            steps,
            whole: None,
            seed,
            checkpoint_every: Self::CHECKPOINT_EVERY,
            resume: false,
            is_quiet: false,
            changeable: &[],
        }
    }

    /// Refuses what [`train_run`](crate::train_run) would refuse because of a run that is there, or because of its settings: to
    /// be asked before anything slow.
    ///
    /// # Errors
    /// [`Error::RunName`], [`Error::Refused`].
    pub fn check(&self) -> Result<()> {
        let path = self.root.join(self.name);
        self.check_new()?;
        if !RunDir::exists(&path) {
            return Ok(());
        }
        let config = RunDir::read_config(&path)?;
        self.check_settings(path, &config)
    }

    /// [`check`](Self::check) where the settings are not known yet.
    ///
    /// # Errors
    /// [`Error::RunName`], [`Error::Refused`].
    pub fn check_new(&self) -> Result<()> {
        let path = self.root.join(self.name);
        match RunDir::exists(&path) {
            false => RunDir::check_name(self.name),
            // It may have been moved to a name that no run begins with.
            true if self.resume => Ok(()),
            true => Err(Error::run_exists(&path)),
        }
    }

    pub(crate) fn open(&self, environment: &Environment) -> Result<RunDir> {
        let path = self.root.join(self.name);
        if !(self.resume && RunDir::exists(&path)) {
            return RunDir::create(self.root, self.name, self.config, environment);
        }
        let mut run = RunDir::open(&path)?;
        self.check_settings(path, run.config())?;
        run.configure(self.config)?;
        Ok(run)
    }

    /// Refuses to go on with the run at `path`, whose configuration is `found`, where another setting than a
    /// changeable one differs.
    fn check_settings(&self, path: PathBuf, found: &str) -> Result<()> {
        if found == self.config {
            return Ok(());
        }
        let fixed = |name: &str| !settings::ends_in(name, self.changeable);
        let found = settings::flat(found)
            .map_err(|error| Error::File(path.clone(), format!("its configuration: {error}")))?;
        let differences = settings::flat(self.config)
            .map_or_else(|_| String::new(), |here| settings::differences(&found, &here, fixed).join(", "));
        if differences.is_empty() && !self.changeable.is_empty() {
            return Ok(());
        }
        let what = if differences.is_empty() { "a configuration in another form" } else { &differences };
        let remedy = "restore the run's configuration or start a new run";
        Err(Error::Refused(format!("{} was made with {what}; {remedy}", path.display())))
    }

    /// What checkpoints belong to: SHA-256 in hexadecimal of the configuration without what may change.
    pub(crate) fn digest(&self) -> String {
        let identity: String = match settings::flat(self.config) {
            Ok(all) if !self.changeable.is_empty() => {
                let fixed = all.into_iter().filter(|(name, _)| !settings::ends_in(name, self.changeable));
                fixed.map(|(name, value)| format!("{name} = {value}\n")).collect()
            }
            _ => self.config.to_owned(),
        };
        sha256(identity.as_bytes())
    }
}

/// Shows nothing.
impl Progress for () {
    fn begin(&mut self, _stage: &str, _total: usize) {}
    fn advance(&mut self, _done: usize, _note: &str) {}
    fn end(&mut self) {}
    fn message(&mut self, _text: &str) {}
}
