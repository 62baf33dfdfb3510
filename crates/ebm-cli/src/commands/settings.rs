//! `ebm settings`, and the argument that changes settings.

use anyhow::Result;
use clap::Args;
use ebm_experiment::config::{Change, Configured, Declaration, Overrides, Setting, Settings};

use super::reproduce::common::Reference;

/// Name of a task, and a function that returns its settings.
type Task = (&'static str, fn() -> Declaration);

const TASKS: [Task; 6] = [
    ("detection", ebm_detect::config::ExperimentConfig::declaration),
    ("refiner", ebm_detect::config::RefinerConfig::declaration),
    ("tracking", ebm_track::config::ExperimentConfig::declaration),
    ("faces", ebm_face::config::ExperimentConfig::declaration),
    ("tabular", ebm_tabular::TabularConfig::declaration),
    ("toy", ebm_toy::Experiment::declaration),
];

/// Arguments of `ebm settings`.
#[derive(Args)]
pub struct TaskArgs {
    /// Task whose settings are listed. faces covers ages and head poses, toy is the problem of Figure 2.
    #[arg(value_parser = TASKS.map(|(name, _)| name))]
    task: String,
}

pub fn run(args: &TaskArgs) -> Result<()> {
    for (_, declaration) in TASKS.iter().filter(|(name, _)| *name == args.task) {
        declaration().explained().iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

/// Arguments that change a configuration.
#[derive(Args, Clone, Default)]
pub struct SettingsArgs {
    /// Setting that replaces the configuration's: a dotted key and a value in TOML, such as confidence.steps=100 or
    /// methods.ebm.confidence.objective.proposal.gaussian.sigmas=[0.05,0.2]. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<Change>,
}

impl SettingsArgs {
    /// Loads an embedded configuration by name, or a TOML file by path, and applies the changes. With `smoke` the work
    /// is reduced to a minimum that shows that everything runs.
    pub fn load<S: Settings>(&self, name_or_path: &str, smoke: bool) -> Result<Configured<S>> {
        Ok(Configured::load(name_or_path, &Overrides { smoke, changes: self.changes.clone() })?)
    }

    /// Parses settings from TOML and applies the changes. Errors refer to the text as `name`.
    pub fn parse<S: Settings>(&self, name: &str, text: &str) -> Result<Configured<S>> {
        Ok(Configured::parse(name, text, &Overrides { smoke: false, changes: self.changes.clone() })?)
    }

    /// Returns the results that a configuration expects, or the reason why there are none.
    pub fn reference<'a, S>(&self, configured: &'a Configured<S>) -> Reference<'a> {
        configured.expected.as_ref().ok_or(match self.changes.as_slice() {
            [] => "the settings have no table [expected]",
            _ => "the configuration's expected figures are for its own settings, without --set",
        })
    }
}
