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

impl Engine {
    const NAMES: [(Self, &'static str); 4] =
        [(Self::Auto, "auto"), (Self::Mpi, "mpi"), (Self::Nccl, "nccl"), (Self::None, "none")];
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let named = Self::NAMES.iter().find(|(_, name)| *name == text);
        named.map(|(engine, _)| *engine).ok_or_else(|| {
            format!("no engine is called `{text}`; engines are `auto`, `mpi`, `nccl` and `none`")
        })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize].1)
    }
}

/// Joins the processes that `launch` tells of, all of which compute on devices like `device`. Returns when
/// all have come.
///
/// One process opens no library. `lookup` gives the environment's variables.
///
/// # Errors
/// [`Error::Distributed`](crate::Error::Distributed) where the engine is not there, sees other processes than
/// the launcher started, or is not told where to meet.
pub fn connect(
    engine: Engine,
    launch: &Launch,
    device: &Device,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Group> {
    match engine {
        _ if launch.world == 1 => Ok(Group::alone()),
        Engine::None => Ok(Group::alone()),
        Engine::Auto if device.is_cuda() => nccl(launch, device, lookup),
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
    crate::error::refuse(reason)
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
