//! Development tasks, run as `cargo xtask <task>`.
//!
//! They build and spawn; the work itself is `ebm`'s. Nothing of the workspace is linked, so that this
//! crate builds in seconds.
#![expect(clippy::print_stderr, reason = "a command-line tool reports its failures on stderr")]

mod attack;
mod check;
mod ci;
mod cuda_setup;
mod ebm;
mod package;
mod process;

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

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
    /// Every argument goes to `ebm reproduce` as it is, `--help` included. `ebm` runs from the workspace's
    /// root: a relative path means a path below it.
    #[command(disable_help_flag = true)]
    Reproduce {
        /// The arguments of `ebm reproduce`, for example `detection --scale mini --json`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Fetch datasets and weights: builds `ebm` in release mode and runs `ebm data get …`.
    ///
    /// Every argument goes to `ebm data get` as it is, `--help` included.
    #[command(disable_help_flag = true)]
    Download {
        /// The arguments of `ebm data get`, for example `utkface weights`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Install what building with `--features cuda` needs, through pip: a compiler for GPUs, no GPU.
    CudaSetup {
        /// Where to; by default target/cuda-13.0.
        directory: Option<OsString>,
    },
    /// Run the quick part of what continuous integration runs: formatting, clippy, the tests beside the code and the rules.
    Check,
    /// Run what continuous integration runs: formatting, clippy, all tests, packages.
    Ci,
    /// Pack what may be published, and build the packed files outside the tree.
    Package(package::PackageArgs),
    /// Run the program on thousands of damaged inputs and through faults of the machine, and print the table
    /// of docs/reliability.md.
    Attack(attack::AttackArgs),
}

fn main() {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        let _ = error.print();
        if error.kind() == ErrorKind::InvalidSubcommand {
            eprintln!(
                "\nThe tasks are `reproduce`, `download`, `cuda-setup`, `check`, `ci`, `package` and `attack`. Everything else is a command of ebm itself:\n  \
                 cargo run --release -p ebm-cli -- --help"
            );
        }
        std::process::exit(error.exit_code())
    });
    let result = match cli.task {
        Task::Reproduce { arguments } => ebm::run(workspace_root(), &["reproduce"], &arguments),
        Task::Download { arguments } => ebm::run(workspace_root(), &["data", "get"], &arguments),
        Task::CudaSetup { directory } => cuda_setup::run(workspace_root(), directory),
        Task::Check => check::run(workspace_root()),
        Task::Ci => ci::run(workspace_root()),
        Task::Package(args) => package::run(workspace_root(), &args),
        Task::Attack(args) => attack(workspace_root(), &args),
    };
    match result {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::exit(1)
        }
    }
}

/// Attacks the program, which is built unless one is given; the exit code is 0 where nothing was found.
fn attack(root: &Path, args: &attack::AttackArgs) -> anyhow::Result<i32> {
    let ebm = args.ebm.clone().map_or_else(|| ebm::build(root), Ok)?;
    let found = attack::run(&ebm, root, &root.join("target/attack"), args)?;
    Ok(i32::from(found > 0))
}

/// The folder of the workspace's Cargo.toml.
fn workspace_root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}
