//! Finds weights that are neither in the program nor given by path, in the first folder that has them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Name of the weights folder in the current folder. A model's path that begins with it is looked for in all folders.
pub const FOLDER: &str = "weights";

/// Environment variable with folders that are searched first, separated as in PATH.
const VARIABLE: &str = "EBM_WEIGHTS";

/// Weights folder of an installed program, relative to the parent of the program's folder.
const SHARE: &str = "share/ebm/weights";

/// Returns the folders in order of search, each with a label.
pub fn folders() -> Vec<(&'static str, PathBuf)> {
    let given = std::env::var_os(VARIABLE).unwrap_or_default();
    let given = std::env::split_paths(&given).filter(|path| !path.as_os_str().is_empty());
    let program = std::env::current_exe().ok();
    let share = program.as_deref().and_then(|program| Some(program.parent()?.parent()?.join(SHARE)));
    let given = given.map(|path| (VARIABLE, path));
    let share = share.map(|path| ("the program's", path));
    given.chain([("this folder's", FOLDER.into())]).chain(share).collect()
}

/// Returns the first folder for which `has` is true.
pub fn folder(has: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    folders().into_iter().map(|(_, folder)| folder).find(|folder| has(folder))
}

/// Returns the path of the file or folder `name` in the first folder that has it.
///
/// # Errors
/// If no folder has it.
pub fn find(name: &Path) -> Result<PathBuf> {
    let lacks = || format!("{} is in none of {}, or give its place", name.display(), search_hint());
    Ok(folder(|folder| folder.join(name).exists()).with_context(lacks)?.join(name))
}

/// Returns a text for errors: the folders that were searched, and the ways to add weights to them.
pub fn search_hint() -> String {
    let names: Vec<_> = folders().iter().map(|(_, folder)| folder.display().to_string()).collect();
    format!("the folders {}: put it into one of them, name its folder in {VARIABLE}", names.join(", "))
}
