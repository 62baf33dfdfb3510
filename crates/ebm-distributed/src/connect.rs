//! Which engine carries a training, and finding the others through it.

use std::fmt;
use std::str::FromStr;

use candle_core::Device;

use crate::{Group, Launch, Result, mpi};

/// What carries messages between processes: `auto`, `mpi`, `nccl` or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// NCCL on a GPU, MPI otherwise.
    #[default]
    Auto,
    /// MPI, for tensors on any device; started by `mpiexec`, or by `srun` with MPI's plug-in.
    Mpi,
    /// NCCL, for tensors on GPUs; started by anything.
    Nccl,
    /// None: each process is on its own, whatever its launcher says.
    None,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "mpi" => Ok(Self::Mpi),
            "nccl" => Ok(Self::Nccl),
            "none" => Ok(Self::None),
            _ => Err(format!("no engine is called `{text}`; engines are `auto`, `mpi`, `nccl` and `none`")),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Mpi => "mpi",
            Self::Nccl => "nccl",
            Self::None => "none",
        })
    }
}

/// Joins the processes that `launch` tells of, all of which compute on devices like `device`. Returns when
/// all have come.
///
/// One process opens no library. `lookup` gives the environment's variables.
///
/// # Errors
/// [`Error::Distributed`] where the engine is not there, or sees other processes than the launcher started;
/// [`Error::Launcher`] where NCCL is not told where to meet.
pub fn connect(
    engine: Engine,
    launch: &Launch,
    device: &Device,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Group> {
    if launch.world == 1 {
        return Ok(Group::alone());
    }
    let engine = match engine {
        Engine::Auto if device.is_cuda() => Engine::Nccl,
        Engine::Auto => Engine::Mpi,
        chosen => chosen,
    };
    match engine {
        Engine::None => Ok(Group::alone()),
        Engine::Nccl => nccl(launch, device, lookup),
        Engine::Auto | Engine::Mpi => Ok(Group::new(mpi::join(launch, lookup)?)),
    }
}

#[cfg(feature = "cuda")]
fn nccl(launch: &Launch, device: &Device, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Group> {
    Ok(Group::new(Box::new(crate::nccl::Nccl::join(launch, device, lookup)?)))
}

#[cfg(not(feature = "cuda"))]
fn nccl(_: &Launch, _: &Device, _: &dyn Fn(&str) -> Option<String>) -> Result<Group> {
    let reason =
        "NCCL is for GPUs, and this program was built without the feature `cuda`; take `--engine mpi`";
    Err(crate::Error::Distributed { reason: reason.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Launcher;

    #[test]
    fn names_of_engines_are_read_and_written() {
        for engine in [Engine::Auto, Engine::Mpi, Engine::Nccl, Engine::None] {
            assert_eq!(engine.to_string().parse(), Ok(engine));
        }
        assert!("gloo".parse::<Engine>().is_err());
    }

    #[test]
    fn one_process_and_no_engine_need_no_library() {
        let none = |_: &str| None;
        for engine in [Engine::Auto, Engine::Mpi, Engine::Nccl, Engine::None] {
            assert_eq!(connect(engine, &Launch::ALONE, &Device::Cpu, &none).unwrap().world(), 1);
        }
        let launch = Launch { launcher: Launcher::Torchrun, rank: 1, world: 2, local_rank: 1 };
        assert_eq!(connect(Engine::None, &launch, &Device::Cpu, &none).unwrap().world(), 1);
        let error = connect(Engine::Nccl, &launch, &Device::Cpu, &none).unwrap_err().to_string();
        assert!(error.contains("GPU"), "{error}");
        // torchrun starts no MPI: each process would find itself alone.
        let error = connect(Engine::Auto, &launch, &Device::Cpu, &none).unwrap_err().to_string();
        assert!(error.contains("mpiexec"), "{error}");
    }
}
