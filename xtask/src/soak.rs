//! `cargo xtask soak`: what is too long for every change. libFuzzer on every parser, 200 kills of a training,
//! 100 of a download.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::process::cargo;

/// How long.
#[derive(Debug, Args)]
pub struct SoakArgs {
    /// Seconds for each parser.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Parsers, by the names that a run without any prints; all of them by default.
    #[arg(long, value_delimiter = ',')]
    targets: Vec<String>,
    /// Processes of a training that are killed; none leaves that test out.
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Processes of a download that are killed; none leaves that test out.
    #[arg(long, default_value_t = 100)]
    download_kills: usize,
}

/// Coverage for libFuzzer, which rustc's stable options can ask of LLVM; of the sanitizers, which they can
/// not, none.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Goal R12: no input takes more memory or time.
const LIMITS: [&str; 3] = ["-rss_limit_mb=512", "-timeout=1", "-max_len=65536"];

/// Runs the soak in the workspace at `root`; the exit code is 0 when nothing failed.
pub fn run(root: &Path, args: &SoakArgs) -> Result<i32> {
    let fuzzer = build(root)?;
    let known =
        Command::new(&fuzzer).env("EBM_FUZZ_LIST", "1").output().context("cannot start the fuzzer")?;
    let known = String::from_utf8(known.stdout).context("the fuzzer's list of targets is no text")?;
    let known: Vec<&str> = known.lines().collect();
    ensure!(!known.is_empty(), "the fuzzer knows no target: see crates/ebm-fuzz/src/lib.rs");
    if let Some(unknown) = args.targets.iter().find(|target| !known.contains(&target.as_str())) {
        bail!("there is no target {unknown}; there are {}", known.join(", "));
    }
    let chosen = |name: &&&str| args.targets.is_empty() || args.targets.iter().any(|target| target == **name);
    let mut failed = Vec::new();
    for &name in known.iter().filter(chosen) {
        eprintln!("\nsoak: {name}, {} s", args.seconds);
        let place = root.join("target/soak/corpus").join(name);
        std::fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
        let status = Command::new(&fuzzer)
            .env("EBM_FUZZ_TARGET", name)
            .env("EBM_FUZZ_SEEDS", &place)
            .args(LIMITS)
            .arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-artifact_prefix={}/", place.parent().unwrap_or(root).join(name).display()))
            .args(["-verbosity=0", "-print_funcs=0", "-print_final_stats=1"])
            .arg(&place)
            .status()
            .context("cannot start the fuzzer")?;
        if !status.success() {
            failed.push(name.to_owned());
        }
    }
    for (test, variable, kills, name) in [
        ("crash", "EBM_KILLS", args.kills, "killed_at_any_time_and_resumed_a_run_ends_with_the_same_bytes"),
        ("downloads", "EBM_DOWNLOAD_KILLS", args.download_kills, "twenty_kills_and_the_file_is_right"),
    ] {
        if kills == 0 {
            continue;
        }
        eprintln!("\nsoak: {kills} kills, {test}");
        let status = cargo()
            .args(["test", "--workspace", "--locked", "--test", test, "--", "--nocapture", name])
            .env(variable, kills.to_string())
            .current_dir(root)
            .status()
            .context("cannot start cargo")?;
        if !status.success() {
            failed.push(test.to_owned());
        }
    }
    ensure!(
        failed.is_empty(),
        "failed: {}; what libFuzzer found is in target/soak/corpus/<target>",
        failed.join(", ")
    );
    Ok(0)
}

/// The fuzzer, built with coverage in a folder of its own. A named target keeps build scripts free of it.
fn build(root: &Path) -> Result<std::path::PathBuf> {
    let host = host()?;
    let status = cargo()
        .args(["build", "--locked", "--package", "ebm-fuzz", "--features", "libfuzzer", "--bin", "fuzz"])
        .args(["--target-dir", "target/soak", "--target", &host])
        .env("RUSTFLAGS", COVERAGE)
        .current_dir(root)
        .status()
        .context("cannot start cargo; is the Rust toolchain installed?")?;
    ensure!(
        status.success(),
        "the fuzzer was not built: mend what cargo reports above; it needs a C++ compiler"
    );
    Ok(root.join("target/soak").join(host).join("debug/fuzz"))
}

/// The machine's own target triple.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout).context("rustc's version is no text")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}
