//! The program as a user starts it, and files that many tests name.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The repository's weights.
pub const WEIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights");
/// The detector of generated scenes.
pub const DETECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/detector_mini.safetensors");
/// Twelve photographs in the form of BIWI.
pub const BIWI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ebm-data/tests/golden/biwi/twelve.npz");

/// The program with these arguments.
pub fn command<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebm"));
    command.args(args);
    command
}

/// Runs the program with these arguments.
pub fn ebm<S: AsRef<OsStr>>(args: &[S]) -> Output {
    command(args).output().unwrap()
}

/// Runs the program, which must succeed; standard output and standard error.
#[track_caller]
pub fn succeeds<S: AsRef<OsStr>>(args: &[S]) -> [String; 2] {
    texts(ebm(args))
}

/// Standard output and standard error of a command that must have succeeded.
#[track_caller]
pub fn texts(output: Output) -> [String; 2] {
    assert!(output.status.success(), "{}", said(&output));
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Runs the program, which must end with this code and say these parts.
#[track_caller]
pub fn fails<S: AsRef<OsStr>>(args: &[S], code: i32, parts: &[&str]) {
    let output = refused(args, parts);
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
}

/// Runs the program, which must end with the code of a failure, of usage or of data, and say these parts.
#[track_caller]
pub fn refused<S: AsRef<OsStr>>(args: &[S], parts: &[&str]) -> Output {
    let (args, output) = (command(args), ebm(args));
    let said = said(&output);
    assert!(matches!(output.status.code(), Some(1..=3)) && !said.contains("panicked"), "{args:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: {part:?} is not in {said}");
    }
    output
}

/// Standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A path below the repository.
pub fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The files in a folder, sorted.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let names = ebm_data::files::names_in(folder).unwrap();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The JSON in a file.
pub fn json_in(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
