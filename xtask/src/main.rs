//! Development tasks, run as `cargo xtask <task>`.
//!
//! The tasks build and start other programs; `ebm` does the work. No crate of the workspace is linked, so that this
//! crate builds in seconds.
#![expect(clippy::print_stderr, reason = "a command-line tool reports its failures on stderr")]

mod ebm;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

/// Development tasks of this workspace.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Reproduce a result of the paper: builds `ebm` in release mode and runs `ebm reproduce …`.
    ///
    /// Every argument, also `--help`, is passed to `ebm reproduce`. `ebm` runs from the workspace's root, so relative
    /// paths start there.
    #[command(disable_help_flag = true)]
    Reproduce {
        /// The arguments of `ebm reproduce`, for example `detection --scale mini --json`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Download datasets and weights: builds `ebm` in release mode and runs `ebm data get …`.
    ///
    /// Every argument, also `--help`, is passed to `ebm data get`.
    #[command(disable_help_flag = true)]
    Download {
        /// The arguments of `ebm data get`, for example `utkface weights`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Install the CUDA compiler for `--features cuda`, through pip. It needs no GPU.
    CudaSetup {
        /// Folder to install into; by default target/cuda-13.0.
        directory: Option<OsString>,
    },
    /// Run the quick part of continuous integration: formatting, clippy, the tests beside the code and the rules.
    Check,
    /// Run all of continuous integration: formatting, clippy, all tests, packages.
    Ci,
    /// Run the program on damaged inputs and through faults of the machine, and print the table of docs/reliability.md.
    ///
    /// Builds `ebm` in release mode, unless `--ebm PATH` gives one, and runs the test `attack` of ebm-cli on it.
    Attack {
        /// Options: `--cases N` of each kind at most, `--only KIND,KIND`, `--case NUMBER`, which keeps its folder,
        /// `--seconds N` for each process at most, `--ebm PATH`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
}

/// Steps of `check`, as arguments of cargo: formatting, clippy, the tests beside the code, and the tests of this
/// repository's rules. Clippy and tests take the same sets of packages as `.ci/run`, so that nothing is built twice.
const QUICK: [&str; 3] = [
    "fmt --all --check",
    "clippy --workspace --all-targets --locked -- -D warnings",
    "test --workspace --locked --quiet --lib --test tidy --test layers --test pages --test packages --test docs_tables",
];

/// Command of `attack`, as arguments of cargo.
const ATTACK: &str = "test --package ebm-cli --test commands --locked -- attack:: --nocapture";

fn main() {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        let _ = error.print();
        if error.kind() == ErrorKind::InvalidSubcommand {
            eprintln!(
                "\nThe tasks are `reproduce`, `download`, `cuda-setup`, `check`, `ci` and `attack`. Everything else is a command of ebm itself:\n  \
                 cargo run --release -p ebm-cli -- --help"
            );
        }
        std::process::exit(error.exit_code())
    });
    let result = match cli.task {
        Task::Reproduce { arguments } => ebm::run(root(), &["reproduce"], &arguments),
        Task::Download { arguments } => ebm::run(root(), &["data", "get"], &arguments),
        Task::CudaSetup { directory } => script("xtask/cuda/setup.sh", directory),
        Task::Check => check(),
        Task::Ci => script(".ci/run", None),
        Task::Attack { arguments } => attack(arguments),
    };
    std::process::exit(result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        1
    }))
}

/// Replaces this process by a script of this repository.
fn script(path: &str, argument: Option<OsString>) -> Result<i32> {
    ebm::replace_process(Command::new("bash").arg(path).args(argument).current_dir(root()))
        .with_context(|| format!("this task needs bash; without it, run what {path} says"))
}

/// Runs the steps of `check` up to the first that fails, and returns its exit code.
fn check() -> Result<i32> {
    for step in QUICK {
        let start = Instant::now();
        let status = ebm::cargo().args(step.split(' ')).current_dir(root()).status();
        let status = status.with_context(|| format!("cannot start cargo {step}"))?;
        eprintln!("check: cargo {step}: {status} after {} s", start.elapsed().as_secs());
        if !status.success() {
            return Ok(status.code().unwrap_or(1));
        }
    }
    Ok(0)
}

/// Attacks the program, which is built unless one is given. Returns the exit code 0 if no fault was found.
fn attack(mut arguments: Vec<String>) -> Result<i32> {
    if arguments.iter().any(|word| word == "--help") {
        return Ok(Cli::command()
            .find_subcommand_mut("attack")
            .map_or(1, |task| i32::from(task.print_help().is_err())));
    }
    if !arguments.iter().any(|word| word.starts_with("--ebm")) {
        arguments.extend(["--ebm".to_owned(), ebm::build(root())?.display().to_string()]);
    }
    let mut cargo = ebm::cargo();
    cargo.args(ATTACK.split(' ')).env("EBM_ATTACK", arguments.join("\n")).current_dir(root());
    ebm::replace_process(&mut cargo)
}

/// Returns the folder of the workspace's Cargo.toml.
fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}
