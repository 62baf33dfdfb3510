//! Passes the versions of the compiler, of candle and of the source to the program, which records them with its
//! measurements.

use std::path::Path;
use std::process::Command;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A package from a registry has its own lock file. In a clone it is the workspace's.
    let lock = ["Cargo.lock", "../../Cargo.lock"]
        .map(|lock| folder.join(lock))
        .into_iter()
        .find(|lock| lock.is_file());
    if let Some(lock) = &lock {
        println!("cargo::rerun-if-changed={}", lock.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=EBM_COMMIT");
    if let Some(version) = rustc() {
        println!("cargo::rustc-env=EBM_RUSTC_VERSION={version}");
    }
    if let Ok(target) = std::env::var("TARGET") {
        println!("cargo::rustc-env=EBM_TARGET={target}");
    }
    if let Some(commit) = given().or_else(|| packed(folder)).or_else(checked_out) {
        println!("cargo::rustc-env=EBM_GIT_COMMIT={commit}");
    }
    if let Some(version) =
        lock.and_then(|lock| std::fs::read_to_string(lock).ok()).as_deref().and_then(candle)
    {
        println!("cargo::rustc-env=EBM_CANDLE_VERSION={version}");
    }
}

/// Returns the commit named by the variable `EBM_COMMIT`, for builds without git.
fn given() -> Option<String> {
    std::env::var("EBM_COMMIT").ok().filter(|commit| !commit.is_empty())
}

/// Returns the commit that cargo wrote into a package. The package's folder may lie inside another project's
/// repository.
fn packed(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(".cargo_vcs_info.json")).ok()?;
    let (_, commit) = text.split_once("\"sha1\": \"")?;
    Some(commit.split_once('"')?.0.to_owned())
}

/// Returns the commit that is checked out. Every commit and every change of branch adds a line to the log of HEAD, so
/// cargo asks again when that file changes.
fn checked_out() -> Option<String> {
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).is_file()) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}

/// Returns the output of `git` in this folder, or `None` without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Returns the output of `rustc --version`.
fn rustc() -> Option<String> {
    let output = Command::new(std::env::var_os("RUSTC")?).arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Returns the version of candle-core in the text of a Cargo.lock.
fn candle(lock: &str) -> Option<&str> {
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"candle-core\"");
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}
