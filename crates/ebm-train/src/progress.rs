//! Progress reports of a long computation to its caller.

use std::path::{Path, PathBuf};

use crate::checkpoint::sha256;
use crate::error::{Error, Result};
use crate::run_dir::{Environment, RunDir};
use crate::settings;

/// Observer of the stages of a computation; the library itself never prints. `()` shows nothing.
pub trait Progress {
    /// Begins a stage with its number of units.
    fn begin(&mut self, _stage: &str, _total: usize) {}

    /// Reports the number of units that an earlier process has done of the stage that has just begun.
    fn resumed(&mut self, _done: usize) {}

    /// Reports the number of units of the stage that are done, and a note that may be shown beside it.
    fn advance(&mut self, _done: usize, _note: &str) {}

    /// Ends the stage.
    fn end(&mut self) {}

    /// Reports a text that the user should read.
    fn message(&mut self, _text: &str) {}

    /// Returns the program and the machine; the directory of a new run records them.
    fn environment(&self) -> Environment {
        Environment::default()
    }

    /// Returns whether the training is to stop, for example after a signal. It is called after every step. If it
    /// is true, the training commits a checkpoint and ends.
    fn stop_requested(&mut self) -> bool {
        false
    }
}

/// Settings of a training run: its place, length and checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct RunSpec<'a> {
    /// Directory that holds the run's directory.
    pub root: &'a Path,
    /// Name of the run's directory.
    pub name: &'a str,
    /// Resolved configuration.
    pub config: &'a str,
    /// Number of updates.
    pub steps: usize,
    /// Number of updates of the whole training, if `steps` is the number until a pause.
    pub whole: Option<usize>,
    /// Root seed.
    pub seed: u64,
    /// Number of steps between checkpoints; 0 for a checkpoint only at the end. There is always one at the end.
    pub checkpoint_every: usize,
    /// `true` to continue the run of an earlier process, if there is one. Otherwise there must be no such run.
    pub resume: bool,
    /// `true` to report nothing on resuming, because this process has only paused.
    pub is_quiet: bool,
    /// Last names of settings that may change when a run is resumed, such as `steps`, by which a finished run is
    /// prolonged.
    pub changeable: &'a [&'a str],
}

impl<'a> RunSpec<'a> {
    /// Default number of steps between checkpoints.
    pub const CHECKPOINT_EVERY: usize = 200;

    /// Describes a new run with the default checkpoints.
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

    /// Refuses a run that [`train_run`](crate::train_run) would refuse because of an existing run or its
    /// settings. Call it before slow operations.
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

    /// Checks like [`check`](Self::check) before the settings are known.
    ///
    /// # Errors
    /// [`Error::RunName`], [`Error::Refused`].
    pub fn check_new(&self) -> Result<()> {
        let path = self.root.join(self.name);
        match RunDir::exists(&path) {
            false => RunDir::check_name(self.name),
            // The run may have been moved to a name that is no valid name of a new run.
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

    /// Refuses to continue the run at `path`, whose configuration is `found`, if a setting that is not
    /// changeable differs.
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

    /// Returns the SHA-256 in hexadecimal of the configuration without changeable settings. It identifies the
    /// checkpoints.
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

impl Progress for () {}
