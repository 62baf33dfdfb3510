//! Several processes of this program as one: who started them, how they meet, how they end.

use std::fmt;

use anyhow::{Error, Result, bail};
use candle_core::Device;
use clap::{Args, ValueEnum};
use ebm_train::distributed::{Group, Launch, join_mpi};
use signal_hook::consts::SIGKILL;

use crate::device::DeviceArgs;

/// What carries messages between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Auto,
    Mpi,
    Nccl,
    None,
}

/// How several processes work together.
#[derive(Args, Clone, Copy, Debug)]
pub struct EngineArgs {
    /// What connects the processes that torchrun, srun or mpiexec started: auto (NCCL on GPUs, else MPI),
    /// mpi, nccl, or none, which leaves each on its own.
    #[arg(long, value_enum, default_value_t = Engine::Auto, value_name = "ENGINE", hide_possible_values = true)]
    engine: Engine,
}

/// An environment variable; one that is empty counts as not set.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Refuses to run one command many times over, in every process of a launcher.
pub fn refuse_several() -> Result<()> {
    // Variables that make no sense are of no concern here.
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
        let joined = joined().map_err(|error| of_rank(launch.rank, launch.world, error));
        joined.inspect_err(|error| {
            if launch.world > 1 {
                leave(error);
            }
        })
    }
}

/// Whether MPICH's launcher, or one with its interface, has started this process.
pub fn is_of_mpich() -> bool {
    variable("PMI_FD").is_some()
}

/// Of a process that does not join the others: MPICH's launcher waits for ever where one has left with an
/// exit code, and ends the others where a signal has ended one.
pub fn leave(error: &Error) {
    if is_of_mpich() {
        report(error);
        // What cannot be sent leaves the exit code.
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

/// Ends the work of `group` as `result` says: on every rank well, or on every rank with an error.
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
    // Said before this process leaves the group: a launcher ends all that are left as soon as one has failed.
    result
        .map_err(|error| of_rank(group.rank(), group.world(), error))
        .inspect_err(report)
        .map_err(|error| error.context(Reported))
}

/// Says what ended the program.
pub fn report(error: &Error) {
    eprintln!("error: {}", chain(error));
}

/// An error with its causes; many an error's text ends with its cause, which is not said again.
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

/// Stands around an error that was said already.
#[derive(Debug)]
pub struct Reported;

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("said before")
    }
}

/// Many processes write to one terminal.
fn of_rank(rank: usize, world: usize, error: Error) -> Error {
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
