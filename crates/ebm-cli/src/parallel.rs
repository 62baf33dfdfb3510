//! Several processes of this program that work as one: how they start, join and end.

use std::fmt;

use anyhow::{Error, Result, bail};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_train::distributed::{Group, Launch, join_mpi};
use signal_hook::consts::SIGKILL;

use crate::device::DeviceArgs;

/// Library that carries messages between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Auto,
    Mpi,
    Nccl,
    None,
}

/// Arguments that say how several processes work together.
#[derive(Args, Clone, Copy, Debug)]
pub struct EngineArgs {
    /// Library that connects the processes started by torchrun, srun or mpiexec: auto (NCCL on GPUs, else MPI), mpi,
    /// nccl, or none, which runs each process on its own.
    #[arg(long, value_enum, default_value_t = Engine::Auto, value_name = "ENGINE", hide_possible_values = true)]
    engine: Engine,
}

/// Returns the value of an environment variable, or `None` if it is empty or not set.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns an error if a launcher started this command in more than one process.
pub fn refuse_several() -> Result<()> {
    // Malformed variables are ignored here.
    match Launch::from_variables(&variable) {
        Ok(launch) if launch.world > 1 => bail!(
            "this command runs in one process, and the launcher started {} of them; start it without the launcher. \
             `ebm train` is what several processes do together",
            launch.world
        ),
        _ => Ok(()),
    }
}

impl EngineArgs {
    /// Opens this process's device and joins the others.
    pub fn join(self, device: DeviceArgs) -> Result<(Group, Device)> {
        let launch = match self.engine {
            Engine::None => Launch::ALONE,
            _ => Launch::from_variables(&variable)?,
        };
        let joined = || -> Result<(Group, Device)> {
            let device = device.open_to_train(launch.local_rank)?;
            let group = match self.engine {
                _ if launch.world == 1 => Group::alone(),
                Engine::Auto if device.is_cuda() => nccl(&launch, &device)?,
                Engine::Nccl => nccl(&launch, &device)?,
                _ => join_mpi(&launch, &variable)?,
            };
            Ok((group, device))
        };
        let joined = joined().map_err(|error| with_rank(launch.rank, launch.world, error));
        joined.inspect_err(|error| {
            if launch.world > 1 {
                end_under_mpich(error);
            }
        })
    }
}

/// Returns `true` if MPICH's launcher, or one with its interface, started this process.
pub fn is_of_mpich() -> bool {
    variable("PMI_FD").is_some()
}

/// Ends a process that cannot join the others, under MPICH's launcher. The launcher waits for ever if a process leaves
/// with an exit code, but ends the others if a signal killed it.
pub fn end_under_mpich(error: &Error) {
    if is_of_mpich() {
        report(error);
        // If the signal cannot be sent, the process leaves with its exit code.
        let _ = signal_hook::low_level::raise(SIGKILL);
    }
}

#[cfg(feature = "cuda")]
fn nccl(launch: &Launch, device: &Device) -> Result<Group> {
    Ok(ebm_train::distributed::join_nccl(launch, device)?)
}

#[cfg(not(feature = "cuda"))]
fn nccl(_: &Launch, _: &Device) -> Result<Group> {
    bail!("NCCL is for GPUs, and this program was built without the feature `cuda`; take `--engine mpi`")
}

/// Ends the work of `group`. If `result` is an error on one rank, every rank ends with an error.
pub fn end(group: &Group, result: Result<()>) -> Result<()> {
    let result = match result {
        Ok(()) => group.finish().map_err(Into::into),
        Err(error) => {
            group.fail(&chain(&error));
            Err(error)
        }
    };
    if group.world() == 1 {
        return result;
    }
    // The error is printed before this process leaves the group, since a launcher ends the other processes as soon as
    // one has failed.
    result
        .map_err(|error| with_rank(group.rank(), group.world(), error))
        .inspect_err(report)
        .map_err(|error| error.context(Reported))
}

/// Prints the error that ended the program.
pub fn report(error: &Error) {
    eprintln!("error: {}", chain(error));
}

/// Returns the text of an error with its causes. A cause that the text already contains is not repeated.
pub fn chain(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}

/// Context that marks an error as printed already.
#[derive(Debug)]
pub struct Reported;

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("printed already")
    }
}

/// Adds the rank to an error, since many processes write to one terminal.
fn with_rank(rank: usize, world: usize, error: Error) -> Error {
    if world > 1 { error.context(format!("rank {rank}")) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let missing = || std::io::Error::from_raw_os_error(2);
        let reading = ebm_data::Error::Io { action: "read", path: "a.json".into(), source: missing() };
        let text = chain(&Error::new(reading).context("the results in a.json"));
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
        assert!(text.starts_with("the results in a.json: "), "{text}");
        let other = Error::new(missing()).context("cannot list videos");
        assert_eq!(chain(&other), "cannot list videos: No such file or directory (os error 2)");
    }
}
