//! Commands of the program, one file for each.

pub mod calibrate;
pub mod data;
pub mod data_get;
pub mod demo;
pub mod doctor;
pub mod eval;
pub mod eval_detection;
pub mod eval_face;
pub mod eval_table;
pub mod eval_tracking;
pub mod export;
pub mod fit;
pub mod manual;
pub mod predict;
pub mod predict_detection;
pub mod predict_face;
pub mod predict_inputs;
pub mod predict_table;
pub mod refine;
pub mod report;
pub mod reproduce;
pub mod settings;
pub mod track;
pub mod track_dataset;
pub mod train;
pub mod weights;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ebm_data::files::{read_settings, write_atomic};
use ebm_data::quarantine::Quarantine;
use ebm_data::sequences::Rect;
use ebm_detect::config::ExperimentConfig;
use ebm_experiment::config::{Configured, Overrides};

/// Loads an embedded configuration by name, or a TOML file by path.
pub fn config(name_or_path: &str) -> Result<ExperimentConfig> {
    Ok(Configured::load(name_or_path, &Overrides::default())?.settings)
}

/// Parses a box `x,y,width,height`.
pub fn parse_box(text: &str) -> Result<Rect, String> {
    let numbers = text.split(',').map(|word| word.trim().parse::<f64>()).collect::<Result<Vec<_>, _>>();
    let expected = || format!("{text:?} is no box; write x,y,width,height, for instance 57,21,31,45");
    numbers.map_err(|_| expected())?.try_into().map_err(|_| expected())
}

/// Returns the error of a wrong argument, with which the program leaves with exit code 2.
pub fn usage(name: &'static str, detail: String) -> ebm_data::Error {
    ebm_data::Error::Argument { name, detail }
}

/// Creates a directory with its parents.
pub fn create_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| {
        format!("cannot create {}; choose another place with --out or --run", path.display())
    })
}

/// Refuses an output that would replace one of the `inputs`, or a file in one that is a folder.
pub fn check_out<'a>(out: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    // An output that is not there yet has its nearest folder's place.
    let absolute = std::path::absolute(out).with_context(|| out.display().to_string())?;
    let place = absolute.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
    let is_hit = |input: &&Path| input.canonicalize().is_ok_and(|input| place.starts_with(input));
    inputs.into_iter().find(is_hit).map_or(Ok(()), |input| {
        let (out, input) = (out.display(), input.display());
        let detail = format!("{out} would replace the input {input}, or lie in it; give another place");
        Err(usage("--out", detail).into())
    })
}

/// Returns the name of a data file or folder, without its extension and COCO's prefixes.
pub fn dataset_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = ["image_info_", "instances_"].iter().find_map(|prefix| stem.strip_prefix(prefix));
    plain.unwrap_or(&stem).to_owned()
}

/// Name of the file that marks a folder as a run. It holds the run's name without its number.
const RUN: &str = "run.txt";

/// Returns the folder for a run's files: the run `resume`, or a new folder.
///
/// # Errors
/// If `resume` is no run with this name. Nothing in it is changed then.
pub fn run_dir(resume: Option<&Path>, root: &Path, name: &str) -> Result<PathBuf> {
    let Some(run) = resume else {
        let run = fresh_run(root, name)?;
        write_atomic(&run.join(RUN), name.as_bytes())?;
        return Ok(run);
    };
    let place = run.display();
    ensure!(run.is_dir(), "--resume {place}: there is no such run; give the directory that it named");
    let found = read_settings(&run.join(RUN));
    let found =
        found.with_context(|| format!("--resume {place}: this is no run, it has no {RUN}; give one"))?;
    let found = found.trim();
    ensure!(found == name, "--resume {place}: this is a run of {found}, not of {name}; give one of these");
    Ok(run.to_owned())
}

/// Returns the name of a run of `ebm reproduce`. Smoke runs are marked, since their results mean nothing.
pub fn run_name(name: &str, smoke: bool) -> String {
    if smoke { format!("{name}-smoke") } else { name.to_owned() }
}

/// Creates `<root>/<name>-<n>` with the smallest n that is not taken.
pub fn fresh_run(root: &Path, name: &str) -> Result<PathBuf> {
    create_dir(root)?;
    let mut n = 1;
    loop {
        let path = root.join(format!("{name}-{n}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => n += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
        }
    }
}

/// Prints how many of a dataset's sequences or records (`what`) are missing or defective.
pub fn report_left_out(what: &str, quarantine: &Quarantine) {
    if let Some(first) = quarantine.defects.first() {
        eprintln!("{} {what} are left out, the first because: {first}", quarantine.defects.len());
    }
}
