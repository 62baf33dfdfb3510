//! Random partition of faces into training, validation and test, which is written to a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ebm_base::Key;
use serde::Serialize;

use super::Faces;
use crate::draw::shuffle;
use crate::error::{Error, Result};
use crate::files::write_atomic;

/// Version of the file and of the way parts are drawn.
const VERSION: u32 = 1;
/// Number of names quoted in an error message.
const SHOWN: usize = 5;

/// Partition of a dataset's names, with the seed that drew it.
///
/// A draw depends on the seed and on the set of names, not on the order of the names.
///
/// ```
/// # use ebm_data::faces::split::Split;
/// let names: Vec<String> = (0..100).map(|n| format!("{n}.jpg")).collect();
/// let split = Split::whole("train", &names, 7)?.draw("train", "validation", 20)?;
/// assert_eq!(split.part("train").map(<[_]>::len), Some(80));
/// # Ok::<(), ebm_data::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    version: u32,
    seed: u64,
    /// Sorted names of each part.
    parts: BTreeMap<String, Vec<String>>,
}

impl Split {
    /// Puts all of `names` into one part.
    ///
    /// # Errors
    /// [`Error::Data`] if a name occurs twice.
    pub fn whole<S: AsRef<str>>(part: &str, names: &[S], seed: u64) -> Result<Self> {
        let mut names: Vec<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        names.sort_unstable();
        if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(fail(format!("{:?} occurs twice", two[0])));
        }
        Ok(Self { version: VERSION, seed, parts: BTreeMap::from([(part.to_owned(), names)]) })
    }

    /// Moves `count` names, drawn at random, from the part `from` to a new part `to`.
    ///
    /// # Errors
    /// [`Error::Data`] if there is no part `from`, there is a part `to`, or `from` has fewer names.
    pub fn draw(self, from: &str, to: &str, count: usize) -> Result<Self> {
        self.draw_groups(from, to, count, |name| name)
    }

    /// Moves `count` groups of names like [`Split::draw`]. Names with the same `group_of` form a group. Groups
    /// keep recordings of one person on one side, see [`folder_of`].
    ///
    /// # Errors
    /// The errors of [`Split::draw`].
    pub fn draw_groups(
        self,
        from: &str,
        to: &str,
        count: usize,
        group_of: impl Fn(&str) -> &str,
    ) -> Result<Self> {
        let groups = self.shuffled_groups(from, to, &group_of)?;
        let Some(drawn) = groups.get(..count) else {
            let detail = format!("{count} cannot be drawn from the {} of part {from:?}", groups.len());
            return Err(fail(detail));
        };
        Ok(self.moved(from, to, drawn, &group_of))
    }

    /// Draws `count` splits for cross-validation. The groups of the part `from` are drawn as by
    /// [`Split::draw_groups`] and divided into shares as equal as possible. Each split has one share as its new
    /// part `to`.
    ///
    /// # Errors
    /// [`Error::Data`] if there is no part `from`, there is a part `to`, `count` is below two, or there are fewer
    /// groups than `count`.
    pub fn folds(
        &self,
        from: &str,
        to: &str,
        count: usize,
        group_of: impl Fn(&str) -> &str,
    ) -> Result<Vec<Self>> {
        let groups = self.shuffled_groups(from, to, &group_of)?;
        let len = groups.len();
        if !(2..=len).contains(&count) {
            let detail =
                format!("part {from:?} has {len} groups, which make 2 to {len} folds and not {count}");
            return Err(fail(detail));
        }
        // The first shares have one group more if the groups do not divide evenly.
        let start = |fold: usize| fold * (len / count) + fold.min(len % count);
        let share = |fold: usize| groups.get(start(fold)..start(fold + 1)).unwrap_or_default();
        Ok((0..count).map(|fold| self.clone().moved(from, to, share(fold), &group_of)).collect())
    }

    /// Returns the groups of a part in the order in which they are drawn for the new part `to`.
    fn shuffled_groups(&self, from: &str, to: &str, group_of: impl Fn(&str) -> &str) -> Result<Vec<String>> {
        if self.parts.contains_key(to) {
            return Err(fail(format!("part {to:?} is drawn already")));
        }
        let Some(names) = self.parts.get(from) else {
            let parts: Vec<_> = self.parts.keys().collect();
            return Err(fail(format!("there is no part {from:?}, only {parts:?}")));
        };
        let groups: BTreeSet<&str> = names.iter().map(|name| group_of(name)).collect();
        let groups: Vec<&str> = groups.into_iter().collect();
        let mut order: Vec<usize> = (0..groups.len()).collect();
        shuffle(&mut order, &mut Key::new(self.seed).split("faces").split("split").split(to).rng());
        Ok(order.iter().filter_map(|&index| groups.get(index).map(|group| (*group).to_owned())).collect())
    }

    /// Moves the names of these groups from one part to another.
    fn moved(mut self, from: &str, to: &str, groups: &[String], group_of: impl Fn(&str) -> &str) -> Self {
        let groups: BTreeSet<&str> = groups.iter().map(String::as_str).collect();
        let names = self.parts.remove(from).unwrap_or_default();
        let (drawn, left) = names.into_iter().partition(|name| groups.contains(group_of(name)));
        self.parts.extend([(to.to_owned(), drawn), (from.to_owned(), left)]);
        self
    }

    /// Writes version, seed and the names of each part as JSON, atomically.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::io("write", path, std::io::Error::other(error)))?;
        bytes.push(b'\n');
        write_atomic(path, &bytes)
    }

    /// Returns the sorted names of a part.
    pub fn part(&self, part: &str) -> Option<&[String]> {
        self.parts.get(part).map(Vec::as_slice)
    }

    /// Returns the faces of each part, sorted by name. A name that is not among the faces but in their quarantine
    /// is left out; its defect is moved to the part.
    ///
    /// # Errors
    /// [`Error::Data`], with the names, if the split has names that are not among the faces, the faces have
    /// names that no part has, or two faces have the same name.
    pub fn apply(&self, faces: &Faces) -> Result<BTreeMap<String, Faces>> {
        let mut by_name = BTreeMap::new();
        let repeated = faces.faces.iter().filter(|face| by_name.insert(face.name.as_str(), *face).is_some());
        let repeated: Vec<_> = repeated.map(|face| face.name.as_str()).collect();
        refuse("two faces have the same name", &repeated)?;
        let mut defects = BTreeMap::<&str, Vec<_>>::new();
        for defect in &faces.quarantine.defects {
            defects.entry(defect.sample.as_str()).or_default().push(defect);
        }

        let mut parts = BTreeMap::new();
        let mut missing = Vec::new();
        for (part, names) in &self.parts {
            let chosen: &mut Faces = parts.entry(part.clone()).or_default();
            for name in names {
                match (by_name.remove(name.as_str()), defects.remove(name.as_str())) {
                    (Some(face), _) => chosen.faces.push(face.clone()),
                    (None, Some(found)) => chosen.quarantine.defects.extend(found.into_iter().cloned()),
                    (None, None) => missing.push(name.as_str()),
                }
            }
        }
        refuse("names of the split are not among the faces", &missing)?;
        let unknown: Vec<_> = by_name.into_keys().collect();
        refuse("faces are in no part of the split", &unknown)?;
        Ok(parts)
    }
}

/// Returns the part of a name before its last `/`, such as the person of Pointing'04's `Person01/person01146+15-30`.
pub fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn refuse(what: &str, names: &[&str]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    Err(fail(format!("{what}: {shown}{more}")))
}

fn fail(detail: String) -> Error {
    Error::Data("split".into(), format!("{detail}; draw it again, or use the faces that it was drawn from"))
}
