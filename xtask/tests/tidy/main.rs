//! Rules of the house that neither the compiler nor clippy knows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rules;
mod source;

use std::path::{Path, PathBuf};

use rules::Source;

/// Lines that a file of the product may have at most; most have fewer than 300.
const MAX_LINES: usize = 400;

/// Formulas with one owner each.
const DEFINED_ONCE: [&str; 3] = ["log_sum_exp", "refine", "iou"];

/// What the method never touches: files, the environment, the network, processes, threads, clocks.
const NOT_IN_CORE: [&str; 6] = ["fs", "env", "net", "process", "thread", "time"];

/// Where sockets are opened, and nowhere else: what fetches, and the server on this machine that it is
/// attacked with.
const NETWORK: [&str; 2] = ["crates/ebm-data/src/fetch", "xtask/src/attack"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file under crates/ and xtask/, and those of the example.
fn sources() -> Vec<Source> {
    let root = root();
    let mut open = vec![root.join("crates"), root.join("xtask"), root.join("examples/own_task/src")];
    let mut sources = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let relative = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
                sources.push(Source::new(relative, text));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        sources.iter().any(|source| source.path == "crates/ebm-core/src/lib.rs"),
        "the walk missed ebm-core"
    );
    sources
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn files_are_short() {
    assert_none(&rules::long_files(&sources(), MAX_LINES));
}

#[test]
fn a_task_of_ones_own_takes_200_lines() {
    let files = sources().into_iter().filter(|source| source.path.starts_with("examples/own_task/"));
    let lines: usize = files.map(|source| source.text.lines().count()).sum();
    assert!((1..=200).contains(&lines), "examples/own_task has {lines} lines");
}

#[test]
fn unsafe_code_lives_in_few_crates() {
    assert_none(&rules::unsafe_code(
        &sources(),
        &["crates/ebm-nn", "crates/ebm-distributed", "crates/ebm-libraries"],
    ));
}

#[test]
fn nothing_is_unfinished_or_ignored() {
    assert_none(&rules::unfinished(&sources()));
}

#[test]
fn a_formula_has_one_owner() {
    assert_none(&rules::not_defined_once(&sources(), &DEFINED_ONCE));
}

#[test]
fn the_method_touches_nothing_outside() {
    assert_none(&rules::standard_modules(&sources(), "crates/ebm-core/src", &NOT_IN_CORE));
}

#[test]
fn one_module_talks_to_the_network() {
    assert_none(&rules::sockets(&sources(), &NETWORK));
}

#[test]
fn randomness_is_passed() {
    assert_none(&rules::ambient_randomness(&sources()));
}

#[test]
fn the_readme_names_the_test_command_of_ci() {
    let command = "cargo test --workspace --locked";
    for file in ["README.md", ".ci/run"] {
        let text =
            std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(command), "{file} does not contain `{command}`");
    }
}
