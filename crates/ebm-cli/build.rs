//! Hands the compiler's version and that of candle to the program, which states them beside its timings.

use std::path::Path;
use std::process::Command;

fn main() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(version) = rustc() {
        println!("cargo::rustc-env=EBM_RUSTC_VERSION={version}");
    }
    if let Some(version) = std::fs::read_to_string(lock).ok().as_deref().and_then(candle) {
        println!("cargo::rustc-env=EBM_CANDLE_VERSION={version}");
    }
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
