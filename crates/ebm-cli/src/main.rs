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
mod table_file;
mod table_spec;
mod tolerance;
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
    /// Train a detector, a branch of a detector, a refiner of boxes, a tracker's box module, or a network for ages or
    /// head poses.
    #[command(subcommand)]
    Train(commands::train::Train),
    /// Learn to predict a column of a CSV file from the other columns, as a density.
    Fit(commands::fit::FitArgs),
    /// Compute metrics.
    #[command(subcommand)]
    Eval(commands::eval::Eval),
    /// Find objects in images and videos, estimate ages and head poses, or predict the targets of a table.
    #[command(subcommand)]
    Predict(commands::predict::Predict),
    /// Follow a target through a video. Each frame gets a box, a confidence and an interval for each edge.
    Track(commands::track::TargetArgs),
    /// Refine another detector's boxes, with an interval for each edge if asked.
    Refine(commands::refine::RefineArgs),
    /// Calibrate a trained refiner or tracker on annotated images or videos: step lengths, scores, and widths of
    /// intervals.
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
    /// Convert weights from other projects, or pack trained models for others to use.
    #[command(subcommand)]
    Weights(commands::weights::Weights),
    /// List a task's settings, each with its range and meaning.
    Settings(commands::settings::TaskArgs),
    /// Report the devices, libraries and weights of this machine, and the missing ones.
    Doctor(commands::doctor::DoctorArgs),
    /// Print a shell's completions of this command.
    Completions(commands::manual::CompletionsArgs),
    /// Print the manual page of `ebm`, or write one page for every command.
    Man(commands::manual::ManArgs),
}

fn main() -> ExitCode {
    ebm_base::libraries::keep_freed_memory();
    let signals = Signals::default();
    let command = Cli::parse().command;
    let all = || prepare().inspect_err(parallel::end_under_mpich).and_then(|()| run(command, &signals));
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

/// Runs `f`. Returns an error if candle panics because the system has no memory for one of its threads.
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

/// Makes a file beyond the size limit an error, and lack of memory an exit code of its own, where the system would end
/// the process silently. Then starts the threads that compute.
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
