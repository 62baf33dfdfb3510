//! What this program is and what it runs on, for the record of a run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ebm_train::Environment;

use crate::machine::{self, Machine};

/// With debug assertions, code is not optimised as a release is.
pub const EBM: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " (debug build: slower than a release)")
} else {
    env!("CARGO_PKG_VERSION")
};
/// candle's version.
pub const CANDLE: &str = or_unknown(option_env!("EBM_CANDLE_VERSION"));
/// The compiler's.
pub const RUSTC: &str = or_unknown(option_env!("EBM_RUSTC_VERSION"));

/// What `ebm --version` says below the name.
pub static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = if ebm_ops::device::HAS_CUDA { "cuda" } else { "none" };
    let lines = [
        ("commit", or_unknown(option_env!("EBM_GIT_COMMIT"))),
        ("features", features),
        ("SIMD", &machine::instructions()),
        ("candle", CANDLE),
        ("rustc", RUSTC),
        ("target", or_unknown(option_env!("EBM_TARGET"))),
    ];
    lines.iter().fold(EBM.to_owned(), |text, (name, value)| format!("{text}\n{name:<9} {value}"))
});

const fn or_unknown(value: Option<&'static str>) -> &'static str {
    match value {
        Some(value) => value,
        None => "unknown",
    }
}

/// This program, built from the commit that was checked out then, on this machine, computing on `device`.
pub fn here(device: &str) -> Environment {
    let Machine { cpu, cores, memory, instructions, system, .. } = Machine::here();
    let list = |pairs: Vec<(&str, String)>| -> BTreeMap<String, String> {
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    Environment {
        git_commit: option_env!("EBM_GIT_COMMIT").map(str::to_owned),
        versions: list(vec![
            ("ebm", EBM.to_owned()),
            ("candle", CANDLE.to_owned()),
            ("rustc", RUSTC.to_owned()),
            ("target", or_unknown(option_env!("EBM_TARGET")).to_owned()),
        ]),
        machine: list(vec![
            ("device", device.to_owned()),
            ("threads", candle_core::utils::get_num_threads().to_string()),
            ("cores", cores.to_string()),
            ("cpu", cpu),
            ("memory", memory),
            ("instructions", instructions),
            ("system", system),
        ]),
    }
}
