//! libFuzzer on one target, which the environment names; `cargo xtask soak` starts it.
#![no_main]

use std::sync::OnceLock;

use ebm_fuzz::{Bench, target};
use libfuzzer_sys::fuzz_target;

/// Names the target.
const TARGET: &str = "EBM_FUZZ_TARGET";

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        let named = std::env::var(TARGET).ok().and_then(|name| target(&name));
        match named.map(Bench::new) {
            Some(Ok(bench)) => bench,
            // There is nobody to hand an error to.
            _ => std::process::exit(2),
        }
    })
}

fuzz_target!(|bytes: &[u8]| {
    // A refusal is an answer like another.
    let _ = bench().read(bytes);
});
