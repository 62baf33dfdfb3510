//! A part of `cargo xtask attack` that takes less than a minute: some cases of every kind, on the program as
//! it was built for tests.
#![allow(clippy::print_stderr, reason = "what was found is this test's report")]

#[path = "../../../xtask/src/attack/mod.rs"]
mod attack;

use std::path::Path;

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: attack::AttackArgs,
}

#[test]
fn some_cases_of_every_kind_find_nothing() {
    if ebm_testing::system::prlimit().is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let dir = tempfile::tempdir().unwrap();
    // Several processes have a test of their own.
    let args = ["attack", "--cases", "8", "--seconds", "120", "--without", "ranks"];
    let args = Cli::parse_from(args).args;
    let found =
        attack::run(Path::new(env!("CARGO_BIN_EXE_ebm")), &root, &dir.path().join("attack"), &args).unwrap();
    assert_eq!(found, 0);
}
