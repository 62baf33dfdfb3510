//! Rules of the house that neither the compiler nor clippy knows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../files/mod.rs"]
mod files;
mod prose;
mod rules;
mod source;

use std::sync::LazyLock;

use rules::Source;

/// Lines that a file of the product may have at most; most have fewer than 300.
const MAX_LINES: usize = 400;

/// Parameters of functions that are tuples, whose parts have no name where the function is called. What is
/// left is counted, so that it does not grow; lower the number where one goes.
const TUPLE_PARAMETERS: usize = 29;

/// Formulas with one owner each.
const DEFINED_ONCE: [&str; 3] = ["log_sum_exp", "refine", "iou"];

/// What the method never touches: files, the environment, the network, processes, threads, clocks.
const NOT_IN_CORE: [&str; 6] = ["fs", "env", "net", "process", "thread", "time"];

/// Where sockets are opened, and nowhere else: what fetches, and the server that pages come from.
const NETWORK: [&str; 2] = ["crates/ebm-data/src/fetch", "crates/ebm-web/src/server"];

/// Every Rust file under crates/ and xtask/, and those of the example.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let paths = files::sources(&["bench/src", "crates", "xtask", "examples/own_task/src"]);
    assert!(paths.iter().any(|path| path == "crates/ebm-core/src/lib.rs"), "the walk missed ebm-core");
    paths.into_iter().map(|path| Source::new(&*path, files::read(&path))).collect()
});

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn files_are_short() {
    assert_none(&rules::long_files(&SOURCES, MAX_LINES));
}

#[test]
fn doc_comments_are_plain() {
    assert_none(&prose::riddles(&SOURCES));
}

#[test]
fn tuples_as_parameters_do_not_grow() {
    let found = rules::tuple_parameters(&SOURCES);
    assert!(found.len() <= TUPLE_PARAMETERS, "{} of them:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_task_of_ones_own_takes_200_lines() {
    let files = SOURCES.iter().filter(|source| source.path.starts_with("examples/own_task/"));
    let lines: usize = files.map(|source| source.text.lines().count()).sum();
    assert!((1..=200).contains(&lines), "examples/own_task has {lines} lines");
}

#[test]
fn unsafe_code_lives_in_few_crates() {
    assert_none(&rules::unsafe_code(&SOURCES, &["crates/ebm-ops", "crates/ebm-train", "crates/ebm-base"]));
}

#[test]
fn nothing_is_unfinished_or_ignored() {
    assert_none(&rules::unfinished(&SOURCES));
}

#[test]
fn a_formula_has_one_owner() {
    assert_none(&rules::not_defined_once(&SOURCES, &DEFINED_ONCE));
}

#[test]
fn the_method_touches_nothing_outside() {
    assert_none(&rules::standard_modules(&SOURCES, "crates/ebm-core/src", &NOT_IN_CORE));
}

#[test]
fn one_module_talks_to_the_network() {
    assert_none(&rules::sockets(&SOURCES, &NETWORK));
}

#[test]
fn randomness_is_passed() {
    assert_none(&rules::ambient_randomness(&SOURCES));
}

#[test]
fn contributors_are_told_the_test_command_of_ci() {
    let command = "cargo test --workspace --locked";
    for file in ["CONTRIBUTING.md", ".ci/run"] {
        let text = files::read(file);
        assert!(text.contains(command), "{file} does not contain `{command}`");
    }
}
