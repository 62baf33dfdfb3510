//! Where weights are that are neither in the program nor given: in the first of these folders that has them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of weights in the current one; a path of a model that begins so is looked for in all of them.
pub const FOLDER: &str = "weights";

/// Folders that come first, written as PATH is.
const VARIABLE: &str = "EBM_WEIGHTS";

/// Where they are beside the program's folder.
const SHARE: &str = "share/ebm/weights";

/// The folders, each with what it is.
pub fn folders() -> Vec<(&'static str, PathBuf)> {
    let given = std::env::var_os(VARIABLE).unwrap_or_default();
    let given = std::env::split_paths(&given).filter(|path| !path.as_os_str().is_empty());
    let program = std::env::current_exe().ok();
    let share = program.as_deref().and_then(|program| Some(program.parent()?.parent()?.join(SHARE)));
    let given = given.map(|path| (VARIABLE, path));
    let share = share.map(|path| ("the program's", path));
    given.chain([("this folder's", FOLDER.into())]).chain(share).collect()
}

/// The first of them that `has` what is needed.
pub fn folder(has: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    folders().into_iter().map(|(_, folder)| folder).find(|folder| has(folder))
}

/// The file or folder `name` in the first of them that has it.
pub fn find(name: &Path) -> Result<PathBuf> {
    let lacks = || format!("{} is in none of {}, or give its place", name.display(), looked());
    Ok(folder(|folder| folder.join(name).exists()).with_context(lacks)?.join(name))
}

/// Where was looked, and what to do where they all lack something.
pub fn looked() -> String {
    let names: Vec<_> = folders().iter().map(|(_, folder)| folder.display().to_string()).collect();
    format!("the folders {}: put it into one of them, name its folder in {VARIABLE}", names.join(", "))
}
