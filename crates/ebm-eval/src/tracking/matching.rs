//! Matching of result files with sequences by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ebm_data::sequences::name_key;

use crate::error::TrackingProblem;

/// Result files by the key of their names.
#[derive(Clone, Debug, Default)]
pub(super) struct ResultFiles {
    files: BTreeMap<String, Vec<PathBuf>>,
}

impl ResultFiles {
    /// Adds the file at `path`, a result of the sequence `name` in any of its spellings.
    pub(super) fn insert(&mut self, name: &str, path: &Path) {
        self.files.entry(name_key(name)).or_default().push(path.to_owned());
    }

    /// Returns the file of each of `names`, in their order, and the files that belong to no name.
    ///
    /// The match ignores case, whether the number of a target follows `.`, `-` or `_`, and the dataset's name that
    /// pytracking writes before a sequence's: `bike1` matches `uav_bike1`. If a video has one target, its number may
    /// be missing on one side: `Human4` matches `human4_2` if no other name or file does.
    pub(super) fn assign(&self, names: &[&str]) -> (Vec<Result<PathBuf, TrackingProblem>>, Vec<PathBuf>) {
        let keys: Vec<String> = names.iter().map(|name| name_key(name)).collect();
        let mut free = self.files.clone();
        let exact: Vec<Option<Vec<PathBuf>>> = keys.iter().map(|key| free.remove(key)).collect();
        let file = |(key, exact): (&String, Option<Vec<PathBuf>>)| {
            let found = exact.or_else(|| {
                let other = with_dataset(key, &free).or_else(|| only_target(key, &keys, &free))?;
                free.remove(&other)
            });
            single(found.unwrap_or_default())
        };
        let assigned = keys.iter().zip(exact).map(file).collect();
        (assigned, free.into_values().flatten().collect())
    }
}

fn single(files: Vec<PathBuf>) -> Result<PathBuf, TrackingProblem> {
    match <[PathBuf; 1]>::try_from(files) {
        Ok([file]) => Ok(file),
        Err(files) if files.is_empty() => Err(TrackingProblem::Missing),
        Err(files) => Err(TrackingProblem::Ambiguous(files)),
    }
}

/// Names of datasets that pytracking writes before the names of sequences.
const DATASETS: [&str; 2] = ["uav_", "nfs_"];

/// Returns the only key in `free` that equals `key` apart from a dataset's name before one of them.
fn with_dataset(key: &str, free: &BTreeMap<String, Vec<PathBuf>>) -> Option<String> {
    let others = DATASETS.iter().flat_map(|name| {
        [Some(format!("{name}{key}")), key.strip_prefix(name).map(str::to_owned)].into_iter().flatten()
    });
    let found: Vec<String> = others.filter(|other| free.contains_key(other)).collect();
    <[String; 1]>::try_from(found).ok().map(|[one]| one)
}

/// Returns the only key in `free` that equals `key` apart from the number of the target, if `key` is the only
/// one of `keys` for this video.
fn only_target(key: &str, keys: &[String], free: &BTreeMap<String, Vec<PathBuf>>) -> Option<String> {
    let video = video(key);
    let mut found = free.keys().filter(|other| self::video(other) == video);
    let (one, more) = (found.next()?, found.next());
    let bare = key == video || one == video;
    let alone = keys.iter().filter(|other| self::video(other) == video).count() == 1;
    (more.is_none() && bare && alone).then(|| one.clone())
}

/// Returns a key without the number of the target, a digit after `_`.
fn video(key: &str) -> &str {
    match key.rsplit_once('_') {
        Some((video, number)) if number.len() == 1 && number.bytes().all(|c| c.is_ascii_digit()) => video,
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(files: &[&str], names: &[&str]) -> (Vec<Option<String>>, usize) {
        let mut all = ResultFiles::default();
        files.iter().for_each(|name| all.insert(name, Path::new(name)));
        let (found, rest) = all.assign(names);
        (found.into_iter().map(|path| path.ok().map(|path| path.display().to_string())).collect(), rest.len())
    }

    #[test]
    fn spellings_of_the_sources_are_matched() {
        let files = ["basketball", "jogging-1", "Jogging_2", "Human4", "other"];
        let names = ["Basketball", "Jogging.1", "Jogging.2", "Human4.2", "Deer"];
        let expected = ["basketball", "jogging-1", "Jogging_2", "Human4"].map(|name| Some(name.to_owned()));
        let (found, rest) = assigned(&files, &names);
        assert_eq!((&found[..4], &found[4], rest), (&expected[..], &None, 1));
        assert_eq!(assigned(&["human4_2"], &["Human4"]).0, [Some("human4_2".to_owned())]);
    }

    /// pytracking's names for the results of UAV123 and the annotations of NFS.
    #[test]
    fn names_of_datasets_do_not_matter() {
        let (found, rest) = assigned(&["uav_bike1", "uav_car1_s", "car1"], &["bike1", "car1_s", "car1"]);
        assert_eq!(found, ["uav_bike1", "uav_car1_s", "car1"].map(|name| Some(name.to_owned())));
        assert_eq!(rest, 0);
        assert_eq!(assigned(&["Gymnastics"], &["nfs_Gymnastics"]).0, [Some("Gymnastics".to_owned())]);
        assert_eq!(assigned(&["uav_bird1", "nfs_bird1"], &["bird1"]), (vec![None], 2));
    }

    #[test]
    fn what_could_be_two_things_is_not_matched() {
        assert_eq!(assigned(&["Jogging"], &["Jogging.1", "Jogging.2"]), (vec![None, None], 1));
        assert_eq!(assigned(&["car_2"], &["car_1"]), (vec![None], 1));
        assert_eq!(assigned(&["car_2", "car_3"], &["car"]), (vec![None], 2));
        let mut twice = ResultFiles::default();
        ["Human4_2", "human4-2"].iter().for_each(|name| twice.insert(name, Path::new(name)));
        assert!(matches!(twice.assign(&["Human4.2"]).0[0], Err(TrackingProblem::Ambiguous(_))));
    }
}
