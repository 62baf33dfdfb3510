//! Settings of an experiment, in TOML. They are embedded in the program or in a file, may extend other settings,
//! and the command line may change them; every key is checked. Besides the settings a configuration has
//! `[expected]`, the expected figures, and `[smoke]`, the changes for a run of minutes.

mod change;
mod nearest;
mod ranges;

use std::path::Path;

pub use ebm_base::settings::{Declaration, Field, Range, Setting};
pub use ebm_base::{settings, settings_table};
use ebm_data::files::read_settings;
use ebm_eval::Expected;
use serde::{Serialize, de::DeserializeOwned};
use toml::{Table, Value};

pub use change::Change;
pub use nearest::suggestion;
pub use ranges::OutOfRange;

use crate::{Error, Result};

/// Settings of a task's experiments.
pub trait Settings: Setting + Serialize + DeserializeOwned {
    /// Name and text of every configuration that is embedded in the program.
    const EMBEDDED: &'static [(&'static str, &'static str)];

    /// Checks that the values, which are in their ranges already, do not contradict each other.
    /// The default accepts all values.
    ///
    /// # Errors
    /// The reason of the contradiction, with the key.
    fn check(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Returns the embedded configuration `name`.
    ///
    /// # Errors
    /// [`Error::Config`] with the names of the embedded configurations.
    fn embedded(name: &str) -> Result<Self> {
        Ok(Configured::parse(name, embedded::<Self>(name)?, &Overrides::default())?.settings)
    }

    /// Parses settings from TOML. `extends = "…"` names an embedded configuration for all settings that `text`
    /// does not have. Errors call the settings `name`.
    ///
    /// # Errors
    /// [`Error::Config`] with the setting that is unknown, missing or impossible.
    fn parse(name: &str, text: &str) -> Result<Self> {
        Ok(Configured::parse(name, text, &Overrides::default())?.settings)
    }

    /// Reads settings from a TOML file, like [`parse`](Self::parse).
    ///
    /// # Errors
    /// [`Error::Config`] with the file and the reason.
    fn read(path: &Path) -> Result<Self> {
        Ok(Configured::read(path, &Overrides::default())?.settings)
    }

    /// Returns all settings as TOML that extends nothing, for the directory of a run and for digests.
    ///
    /// # Errors
    /// [`Error::Config`] if a number has no form in TOML.
    fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::config("resolved", error))
    }
}

/// Changes to a configuration.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `true` to apply the table `[smoke]`, which reduces everything so far that a run only shows whether
    /// everything works.
    pub smoke: bool,
    /// Single settings, applied after `[smoke]`.
    pub changes: Vec<Change>,
}

/// Settings with the expected figures of their experiment.
#[derive(Clone, Debug)]
pub struct Configured<S> {
    /// The settings.
    pub settings: S,
    /// Expected figures from the configuration's own table `[expected]`. Figures of an extended configuration do
    /// not apply, because they are for other settings; its own figures do not apply after a change.
    pub expected: Option<Expected>,
}

impl<S: Settings> Configured<S> {
    /// Loads the embedded configuration `name_or_path`, or else the file at that path, and applies `overrides`.
    ///
    /// # Errors
    /// [`Error::Config`] with the setting that is unknown, missing or impossible.
    pub fn load(name_or_path: &str, overrides: &Overrides) -> Result<Self> {
        match S::EMBEDDED.iter().find(|(name, _)| *name == name_or_path) {
            Some((name, text)) => Self::parse(name, text, overrides),
            None if Path::new(name_or_path).exists() => Self::read(Path::new(name_or_path), overrides),
            None => {
                let reason = format!("there is no such file; embedded are {}", names::<S>().join(", "));
                Err(Error::config(name_or_path, reason))
            }
        }
    }

    /// Reads the file at `path` and applies `overrides`.
    ///
    /// # Errors
    /// [`Error::Config`] with the file and the reason.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_settings(path).map_err(|error| Error::config(&name, error))?;
        Self::parse(&name, &text, overrides)
    }

    /// Parses settings from TOML and applies `overrides`; errors call them `name`.
    ///
    /// # Errors
    /// [`Error::Config`] with the setting that is unknown, missing or impossible.
    pub fn parse(name: &str, text: &str, Overrides { smoke, changes }: &Overrides) -> Result<Self> {
        let fail = |reason: String| Error::config(name, reason);
        let mut table = with_base::<S>(name, text)?;
        let expected = match table.remove("expected") {
            Some(Value::Table(expected)) => Some(parsed::<Expected>(&format!("{name}, expected"), expected)?),
            Some(other) => return Err(fail(format!("expected = {other}: a table is expected"))),
            None => None,
        };
        match (table.remove("smoke"), smoke) {
            (Some(Value::Table(little)), true) => change::merge(&mut table, little),
            (Some(Value::Table(little)), false) => {
                ranges::check(&format!("{name}, smoke"), &S::declaration(), &little, false)?;
            }
            (None, false) => {}
            (_, true) => {
                return Err(fail("it has no table [smoke], which says how little is enough".to_owned()));
            }
            (Some(other), false) => return Err(fail(format!("smoke = {other}: a table is expected"))),
        }
        for change in changes {
            change::merge(&mut table, change.table().clone());
        }
        let settings: S = parsed(name, table)?;
        settings.check().map_err(fail)?;
        Ok(Self { settings, expected: expected.filter(|_| changes.is_empty() && !smoke) })
    }
}

settings_table! {
    /// Row of a table that compares proposals.
    pub struct AblationConfig<P> {
        /// Standard deviations {σ_l} of the proposal, Eq. 5.
        pub sigmas: Vec<f64> where 1e-6..=1e4,
        /// Published figures of this proposal.
        pub published: P where 0.0..=100.0 => "per cent",
    }
}

/// Parses settings of any type and checks each number's range; errors call them `name`.
///
/// # Errors
/// [`Error::OutOfRange`] and [`Error::Config`].
pub fn parse<T: Setting + DeserializeOwned>(name: &str, text: &str) -> Result<T> {
    parsed(name, table_of(name, text)?)
}

/// Refuses settings with a number out of its range; the error calls them `name`.
///
/// # Errors
/// [`Error::OutOfRange`]; [`Error::Config`] if a number has no form in TOML.
pub fn check_ranges<T: Setting + Serialize>(name: &str, settings: &T) -> Result<()> {
    let table = Table::try_from(settings).map_err(|error| Error::config(name, error))?;
    ranges::check(name, &T::declaration(), &table, true)
}

fn parsed<T: Setting + DeserializeOwned>(name: &str, table: Table) -> Result<T> {
    let fail = |reason: String| Error::config(name, reason);
    let declaration = T::declaration();
    ranges::check(name, &declaration, &table, false)?;
    let settings = table
        .clone()
        .try_into()
        .map_err(|error: toml::de::Error| fail(nearest::explain(&error.to_string(), &table)))?;
    ranges::check(name, &declaration, &table, true).map(|()| settings)
}

fn table_of(name: &str, text: &str) -> Result<Table> {
    let fail = |reason: String| Error::config(name, reason);
    text.parse().map_err(|error: toml::de::Error| fail(error.to_string()))
}

/// Returns the row with the key `key`.
///
/// # Errors
/// [`Error::Config`] with the nearest key and all known keys.
pub fn row<'a, R: 'a>(
    rows: impl IntoIterator<Item = &'a R>,
    key_of: impl Fn(&R) -> &str,
    key: &str,
) -> Result<&'a R> {
    let mut known = Vec::new();
    for row in rows {
        if key_of(row) == key {
            return Ok(row);
        }
        known.push(key_of(row));
    }
    let near = suggestion(key, known.iter().copied());
    Err(Error::config(key, format!("there is no such method{near}; there are {}", known.join(", "))))
}

/// Parses `text` and merges its settings into the settings that it extends.
fn with_base<S: Settings>(name: &str, text: &str) -> Result<Table> {
    let fail = |reason: String| Error::config(name, reason);
    let mut table = table_of(name, text)?;
    match table.remove("extends") {
        None => Ok(table),
        Some(Value::String(base)) => {
            let mut resolved = with_base::<S>(&base, embedded::<S>(&base)?)?;
            resolved.remove("expected");
            change::merge(&mut resolved, table);
            Ok(resolved)
        }
        Some(other) => Err(fail(format!("extends = {other}: a name is expected"))),
    }
}

fn embedded<S: Settings>(name: &str) -> Result<&'static str> {
    S::EMBEDDED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
        let known = names::<S>();
        let near = suggestion(name, known.iter().copied());
        let reason = format!("there is no such embedded configuration{near}; there are {}", known.join(", "));
        Error::config(name, reason)
    })
}

fn names<S: Settings>() -> Vec<&'static str> {
    S::EMBEDDED.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests;
