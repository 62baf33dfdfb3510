//! Result files in a folder.

use std::collections::BTreeMap;
use std::path::Path;

use ebm_data::sequences::read_boxes;

use super::annotations::{Annotations, is_text, list};
use super::convention::Convention;
use super::matching::ResultFiles;
use super::report::{TrackingReport, collect};
use super::sequence::{SequenceScores, TrackingGroundTruth, score_sequence};
use crate::error::{Error, Result};

/// Scores the result files in `dir`, one for each sequence and run, in any [`ResultFormat`](super::ResultFormat), and
/// returns a report for each run. Several runs are recognised by files `{name}/{name}_001.txt`, `{name}/{name}_002.txt` …
/// in a folder for each sequence, or by a folder for each run whose name ends with three digits, such as pytracking's
/// `default_000`, `default_001` ….
///
/// Files are matched to sequences by name, ignoring case and whether the number of a target follows `.`, `-` or `_`. A
/// sequence whose file is missing, short, too long, malformed or of another sequence is listed in the report with
/// the reason.
///
/// # Errors
/// [`Error::Io`] if `dir` cannot be listed; [`Error::NoSequence`] if no sequence can be scored.
pub fn evaluate_runs(
    annotations: &Annotations<'_>,
    dir: &Path,
    convention: &Convention,
) -> Result<Vec<TrackingReport>> {
    let runs = find_results(dir)?;
    runs.iter().map(|files| evaluate_files(annotations, files, convention)).collect()
}

fn evaluate_files(
    annotations: &Annotations<'_>,
    files: &ResultFiles,
    convention: &Convention,
) -> Result<TrackingReport> {
    let names: Vec<&str> = annotations.sequences.iter().map(|truth| truth.name.as_ref()).collect();
    let failed: Vec<&str> = annotations.failed.iter().map(|failed| failed.name.as_str()).collect();
    // The names of failed annotations keep their result files from counting as files without an annotation.
    let (mut paths, unmatched) = files.assign(&[names, failed].concat());
    paths.truncate(annotations.sequences.len());
    let scored = annotations.sequences.iter().zip(paths).map(|(truth, path)| {
        let scores = path
            .map_err(|problem| Error::Tracking(truth.name.to_string(), problem))
            .and_then(|path| score_file(truth, &path, convention));
        (truth.name.to_string(), scores)
    });
    let unmatched = unmatched.iter().map(|path| path.display().to_string()).collect();
    collect(scored, convention, annotations.failed.clone(), unmatched)
}

fn score_file(
    truth: &TrackingGroundTruth<'_>,
    path: &Path,
    convention: &Convention,
) -> Result<SequenceScores> {
    let prediction = read_boxes(path)?;
    score_sequence(truth, &prediction, convention).map_err(|error| match error {
        Error::Tracking(_, problem) => Error::Tracking(path.display().to_string(), problem),
        other => other,
    })
}

/// Finds the result files of each run; without any file there is one empty run.
fn find_results(dir: &Path) -> Result<Vec<ResultFiles>> {
    let mut runs = BTreeMap::<usize, ResultFiles>::new();
    for path in list(dir)? {
        if !path.is_dir() {
            if let Some(name) = result_name(&path) {
                runs.entry(1).or_default().insert(name, &path);
            }
            continue;
        }
        let Some(sequence) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let files = list(&path)?;
        let of_runs: Vec<_> = files.iter().filter_map(|file| Some((run_of(sequence, file)?, file))).collect();
        match run_of_folder(sequence) {
            Some(run) if of_runs.is_empty() => {
                for file in &files {
                    if let Some(name) = result_name(file) {
                        runs.entry(run).or_default().insert(name, file);
                    }
                }
            }
            _ => of_runs
                .into_iter()
                .for_each(|(run, file)| runs.entry(run).or_default().insert(sequence, file)),
        }
    }
    if runs.is_empty() {
        return Ok(vec![ResultFiles::default()]);
    }
    Ok(runs.into_values().collect())
}

/// Returns the name of a result file without its extension; none for other files and for files of times.
fn result_name(path: &Path) -> Option<&str> {
    let name = path.file_stem()?.to_str()?;
    (is_text(path) && !name.ends_with("_time")).then_some(name)
}

/// Returns the run of a folder `{anything}_{run}`, the run with three digits.
fn run_of_folder(name: &str) -> Option<usize> {
    let (_, run) = name.rsplit_once('_')?;
    if run.len() == 3 { run.parse().ok() } else { None }
}

/// Returns the run of a file `{sequence}_{run}.txt`.
fn run_of(sequence: &str, path: &Path) -> Option<usize> {
    result_name(path)?.strip_prefix(sequence)?.strip_prefix('_')?.parse().ok()
}
