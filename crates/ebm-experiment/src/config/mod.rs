//! The settings of an experiment: TOML that is embedded in the program or in a file, over the settings that
//! it extends, with the command line's changes on top; every key is checked. Beside the settings it has
//! `[expected]`, what they should come to, and `[smoke]`, what makes a run of minutes of them.

mod change;
mod nearest;
mod ranges;

use std::path::Path;

pub use ebm_base::settings;
pub use ebm_base::settings::{Declaration, Field, Range, Setting};
use ebm_data::files::read_settings;
use ebm_eval::Expected;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use toml::{Table, Value};

pub use change::Change;
pub use nearest::suggestion;
pub use ranges::OutOfRange;

use crate::{Error, Result};

/// The settings of a task's experiments.
pub trait Settings: Setting + Serialize + DeserializeOwned {
    /// Name and text of every configuration that is embedded in the program.
    const EMBEDDED: &'static [(&'static str, &'static str)];

    /// Why the values contradict each other, if they do; unless overridden, they never do. Each of them is in
    /// its range.
    ///
    /// # Errors
    /// The reason, with the key.
    fn check(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// The embedded configuration `name`.
    ///
    /// # Errors
    /// [`Error::Config`], naming those that there are.
    fn embedded(name: &str) -> Result<Self> {
        Ok(Configured::parse(name, embedded::<Self>(name)?, &Overrides::default())?.settings)
    }

    /// Settings from TOML; `extends = "…"` names an embedded configuration whose settings hold where `text`
    /// has none. `name` is what errors call it.
    ///
    /// # Errors
    /// [`Error::Config`], naming the setting that is unknown, missing or impossible.
    fn parse(name: &str, text: &str) -> Result<Self> {
        Ok(Configured::parse(name, text, &Overrides::default())?.settings)
    }

    /// Settings from a TOML file, as [`parse`](Self::parse).
    ///
    /// # Errors
    /// [`Error::Config`], naming the file and what is wrong with it.
    fn read(path: &Path) -> Result<Self> {
        Ok(Configured::read(path, &Overrides::default())?.settings)
    }

    /// All settings as TOML, which extends nothing: what a run keeps, and what digests are made of.
    ///
    /// # Errors
    /// [`Error::Config`] when a number has no form in TOML.
    fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::config("resolved", error))
    }
}

/// What is put on top of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Whether its table `[smoke]` is: so little of everything that it only shows whether everything works.
    pub smoke: bool,
    /// Single settings, over that.
    pub changes: Vec<Change>,
}

/// Settings with what their experiment should come to.
#[derive(Clone, Debug)]
pub struct Configured<S> {
    /// The settings.
    pub settings: S,
    /// The figures that the configuration itself states in `[expected]`: those of what it extends are of
    /// other settings, and so are its own where something was changed.
    pub expected: Option<Expected>,
}

impl<S: Settings> Configured<S> {
    /// The embedded configuration of that name or else the file at that path, with `overrides` on top.
    ///
    /// # Errors
    /// [`Error::Config`], naming the setting that is unknown, missing or impossible.
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

    /// The file at `path` with `overrides` on top.
    ///
    /// # Errors
    /// [`Error::Config`], naming the file and what is wrong with it.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_settings(path).map_err(|error| Error::config(&name, error))?;
        Self::parse(&name, &text, overrides)
    }

    /// Settings from TOML with `overrides` on top; `name` is what errors call it.
    ///
    /// # Errors
    /// [`Error::Config`], naming the setting that is unknown, missing or impossible.
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

settings! {
    /// A proposal of a table that compares proposals.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct AblationConfig<P> {
        /// {σ_l} of Eq. 5.
        pub sigmas: Vec<f64> where 1e-6..=1e4,
        /// What was published of it.
        pub published: P where 0.0..=100.0 => "per cent",
    }
}

/// The settings of `text`, whatever they are of, each number in its range; `name` is what errors call it.
///
/// # Errors
/// [`Error::OutOfRange`] and [`Error::Config`].
pub fn parse<T: Setting + DeserializeOwned>(name: &str, text: &str) -> Result<T> {
    parsed(name, table_of(name, text)?)
}

/// Refuses settings of which a number is out of its range; `name` is what the error calls them.
///
/// # Errors
/// [`Error::OutOfRange`]; [`Error::Config`] when a number has no form in TOML.
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

/// The row of that key.
///
/// # Errors
/// [`Error::Config`], naming the nearest key and all that there are.
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

/// The settings of `text` over those of what it extends.
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
