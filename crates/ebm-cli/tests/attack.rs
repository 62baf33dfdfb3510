//! Some cases of every kind of `cargo xtask attack`, on the program as it was built for tests.
#![allow(clippy::print_stderr, reason = "what was found is this test's report")]

#[path = "../../../xtask/src/attack/mod.rs"]
#[allow(clippy::module_inception, reason = "the module of xtask, by its own name")]
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
    let args = ["attack", "--cases", "5", "--seconds", "120"];
    let args = Cli::parse_from(args).args;
    let found =
        attack::run(Path::new(env!("CARGO_BIN_EXE_ebm")), &root, &dir.path().join("attack"), &args).unwrap();
    assert_eq!(found, 0);
}
