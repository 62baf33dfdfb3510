//! The `ebm` command: results on standard output, everything else on standard error.

#[macro_use]
mod output;

mod commands;
mod contact_sheet;
mod detection_picture;
mod device;
mod exit;
mod machine;
mod model_path;
mod parallel;
mod picture;
#[cfg(target_os = "linux")]
mod placement;
mod progress;
mod schema;
mod signals;
mod table_spec;
mod video;
mod weights_path;
mod workers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use signals::Signals;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Energy-based regression: train, evaluate, predict, reproduce.
#[derive(Parser)]
#[command(name = "ebm", version, long_version = machine::LONG_VERSION.as_str(), arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a detector, a branch of it, a refiner of boxes, a tracker's box module, or a network of ages or head poses.
    #[command(subcommand)]
    Train(commands::train::Train),
    /// Learn to predict a column of a CSV file from the others, as a density.
    Fit(commands::fit::FitArgs),
    /// Compute metrics.
    #[command(subcommand)]
    Eval(commands::eval::Eval),
    /// Find objects, or read age and pose off faces: listed, and drawn.
    #[command(subcommand)]
    Predict(commands::predict::Predict),
    /// Follow a target through a video: a box for each frame, how sure it is, and where each edge lies.
    Track(commands::track::TargetArgs),
    /// Place another detector's boxes anew, and say how sure each edge is.
    Refine(commands::refine::RefineArgs),
    /// Teach a trained refiner or tracker, from annotated images or videos, how it is best used and how wide its
    /// intervals have to be.
    #[command(subcommand)]
    Calibrate(commands::calibrate::Calibrate),
    /// Show a page on this machine: drag a box and watch it climb.
    Demo(commands::demo::DemoArgs),
    /// Reproduce a table of the paper.
    #[command(subcommand)]
    Reproduce(commands::reproduce::Reproduce),
    /// Show runs as one page for a browser: curves, settings, tables, pictures.
    Report(commands::report::ReportArgs),
    /// Get, check and generate data.
    #[command(subcommand)]
    Data(commands::data::Data),
    /// Write a trained energy model as ONNX files, for other runtimes.
    Export(commands::export::ExportArgs),
    /// Weights made elsewhere, and models for others.
    #[command(subcommand)]
    Weights(commands::weights::Weights),
    /// List a task's settings, each with its range and meaning.
    Settings(commands::settings::TaskArgs),
    /// Say what this machine has to compute with, and what is missing for what.
    Doctor(commands::doctor::DoctorArgs),
    /// Print what a shell needs to complete this command.
    Completions(commands::manual::CompletionsArgs),
    /// Print the page of the manual, or write those of every command.
    Man(commands::manual::ManArgs),
}

fn main() -> ExitCode {
    ebm_base::libraries::keep_freed_memory();
    let signals = Signals::default();
    let command = Cli::parse().command;
    let all = || prepare().inspect_err(parallel::leave).and_then(|()| run(command, &signals));
    match with_threads(all) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.downcast_ref::<parallel::Reported>().is_none() {
                parallel::report(&error);
            }
            ExitCode::from(exit::code(&error, signals.exit_code()))
        }
    }
}

/// What `f` returns; an error where candle panics because the system has no memory for one of its threads.
fn with_threads(f: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => match payload.downcast_ref::<String>() {
            Some(said) if said.starts_with("failed to spawn") => {
                let cause = std::io::Error::from(std::io::ErrorKind::WouldBlock);
                Err(anyhow::Error::new(cause)
                    .context("a thread cannot be started; is there memory for its stack?"))
            }
            _ => std::panic::resume_unwind(payload),
        },
    }
}

/// What the operating system would end without a word becomes an error, or an exit code that says what it
/// was.
fn prepare() -> anyhow::Result<()> {
    signals::report_file_size_limit()?;
    if !parallel::is_of_mpich() {
        signals::report_memory()?;
    }
    ebm_ops::instruction_sets()?;
    workers::start::<Cli>()
}

fn run(command: Command, signals: &Signals) -> anyhow::Result<()> {
    if !matches!(command, Command::Train(_) | Command::Doctor(_)) {
        parallel::refuse_several()?;
    }
    match command {
        Command::Train(command) => commands::train::run(command, signals),
        Command::Fit(args) => commands::fit::run(&args),
        Command::Eval(command) => commands::eval::run(command),
        Command::Predict(command) => commands::predict::run(command),
        Command::Track(args) => commands::track::run(&args),
        Command::Refine(args) => commands::refine::run(&args),
        Command::Calibrate(command) => commands::calibrate::run(command),
        Command::Demo(args) => commands::demo::run(&args, signals),
        Command::Reproduce(command) => commands::reproduce::run(command, signals),
        Command::Report(args) => commands::report::run(&args),
        Command::Data(command) => commands::data::run(command),
        Command::Export(args) => commands::export::run(&args),
        Command::Weights(command) => commands::weights::run(command),
        Command::Settings(args) => commands::settings::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Completions(args) => commands::manual::completions::<Cli>(&args),
        Command::Man(args) => commands::manual::man::<Cli>(&args),
    }
}
