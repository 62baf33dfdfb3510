//! Hands the versions of the compiler, of candle and of the source to the program, which states them beside
//! what it measures.

use std::path::Path;
use std::process::Command;

fn main() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(version) = rustc() {
        println!("cargo::rustc-env=EBM_RUSTC_VERSION={version}");
    }
    if let Ok(target) = std::env::var("TARGET") {
        println!("cargo::rustc-env=EBM_TARGET={target}");
    }
    if let Some(commit) = git(&["rev-parse", "HEAD"]) {
        println!("cargo::rustc-env=EBM_GIT_COMMIT={commit}");
    }
    // Every commit and every other branch adds a line here.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).is_file()) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(version) = std::fs::read_to_string(lock).ok().as_deref().and_then(candle) {
        println!("cargo::rustc-env=EBM_CANDLE_VERSION={version}");
    }
}

/// What `git` answers in this folder; none where there is no git, or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// What `rustc --version` says.
fn rustc() -> Option<String> {
    let output = Command::new(std::env::var_os("RUSTC")?).arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The version of candle-core in a Cargo.lock.
fn candle(lock: &str) -> Option<&str> {
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"candle-core\"");
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}
