//! libFuzzer on one target, which the environment names; `cargo xtask soak` starts it.
#![no_main]
#![expect(clippy::print_stdout, reason = "the list of targets is this program's answer")]

use std::path::PathBuf;
use std::sync::OnceLock;

use ebm_fuzz::{Bench, Target, target, targets};
use libfuzzer_sys::fuzz_target;

/// Names the target.
const TARGET: &str = "EBM_FUZZ_TARGET";
/// A folder to put its seeds into.
const SEEDS: &str = "EBM_FUZZ_SEEDS";
/// Has the names of all targets printed instead.
const LIST: &str = "EBM_FUZZ_LIST";

static BENCH: OnceLock<Bench> = OnceLock::new();

/// Before libFuzzer reads its corpus. There is nobody to hand an error to: the exit code is 2.
fn begin() {
    if std::env::var_os(LIST).is_some() {
        targets().iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    }
    let named = std::env::var(TARGET).ok().and_then(|name| target(&name));
    let ready = named.is_some_and(|target| {
        write_seeds(&target).is_ok() && Bench::new(target).is_ok_and(|bench| BENCH.set(bench).is_ok())
    });
    if !ready {
        std::process::exit(2);
    }
}

fn write_seeds(target: &Target) -> std::io::Result<()> {
    let Some(folder) = std::env::var_os(SEEDS).map(PathBuf::from) else { return Ok(()) };
    let seeds = (target.seeds)();
    seeds.iter().enumerate().try_for_each(|(i, seed)| std::fs::write(folder.join(format!("seed-{i}")), seed))
}

fuzz_target!(init: begin(), |bytes: &[u8]| {
    if let Some(bench) = BENCH.get() {
        // A refusal is an answer like another.
        let _ = bench.read(bytes);
    }
});
