//! What launchers tell a process of its place among the others.

use crate::{Error, Result};

/// Who started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Nobody who starts several.
    None,
    /// torchrun, or another that sets its variables.
    Torchrun,
    /// Open MPI's `mpiexec`.
    OpenMpi,
    /// The `mpiexec` of MPICH and its relatives.
    Mpich,
    /// SLURM's `srun`.
    Slurm,
}

/// A process among those that a launcher has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Who started it.
    pub launcher: Launcher,
    /// Its number, from 0.
    pub rank: usize,
    /// How many there are.
    pub world: usize,
    /// Its number among those of its machine, from 0.
    pub local_rank: usize,
}

/// The variables of a launcher: how many, which, and which on its machine (the first that is set).
struct Variables {
    launcher: Launcher,
    world: &'static str,
    rank: &'static str,
    local: &'static [&'static str],
}

/// The innermost launcher first: SLURM starts the others, and `srun` may start one torchrun for each machine.
///
/// SLURM tells a batch script, which is one process, its job's number of tasks; the variable of a step is
/// there under `srun` alone.
const LAUNCHERS: [Variables; 4] = [
    Variables { launcher: Launcher::Torchrun, world: "WORLD_SIZE", rank: "RANK", local: &["LOCAL_RANK"] },
    Variables {
        launcher: Launcher::OpenMpi,
        world: "OMPI_COMM_WORLD_SIZE",
        rank: "OMPI_COMM_WORLD_RANK",
        local: &["OMPI_COMM_WORLD_LOCAL_RANK"],
    },
    Variables {
        launcher: Launcher::Mpich,
        world: "PMI_SIZE",
        rank: "PMI_RANK",
        local: &["MPI_LOCALRANKID", "SLURM_LOCALID"],
    },
    Variables {
        launcher: Launcher::Slurm,
        world: "SLURM_STEP_NUM_TASKS",
        rank: "SLURM_PROCID",
        local: &["SLURM_LOCALID"],
    },
];

fn refuse<T>(variable: &str, reason: String) -> Result<T> {
    Err(Error::Launcher { variable: variable.to_owned(), reason })
}

impl Launch {
    /// A process on its own.
    pub const ALONE: Self = Self { launcher: Launcher::None, rank: 0, world: 1, local_rank: 0 };

    /// The place of this process by the launcher's variables, whose values `lookup` gives.
    ///
    /// # Errors
    /// [`Error::Launcher`] where a launcher's variables are there in part, are no numbers, or contradict each
    /// other or another launcher's.
    pub fn from_variables(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut found = Vec::new();
        for variables in &LAUNCHERS {
            found.extend(variables.read(lookup)?);
        }
        let Some(&first) = found.first() else { return Ok(Self::ALONE) };
        // torchrun, which has a name for each run, may stand inside of another launcher; plain variables of
        // its names may be left over.
        if first.launcher == Launcher::Torchrun && lookup("TORCHELASTIC_RUN_ID").is_none() {
            let mpi = |launch: &&Self| matches!(launch.launcher, Launcher::OpenMpi | Launcher::Mpich);
            if let Some(other) = found.iter().find(mpi)
                && (other.rank, other.world) != (first.rank, first.world)
            {
                return refuse(
                    "RANK",
                    format!(
                        "this and WORLD_SIZE say process {} of {}, mpiexec says {} of {}; unset RANK and WORLD_SIZE",
                        first.rank, first.world, other.rank, other.world
                    ),
                );
            }
        }
        Ok(first)
    }

    /// The share of this process in a batch of `batch_size`: which images it takes, consecutive, as many as
    /// every other.
    ///
    /// # Errors
    /// [`Error::Batch`] where the batch does not divide evenly.
    pub fn share(rank: usize, world: usize, batch_size: usize) -> Result<std::ops::Range<usize>> {
        let share = batch_size / world.max(1);
        if share * world != batch_size || share == 0 {
            let reason = format!(
                "a batch of {batch_size} images cannot be shared equally by {world} processes; \
                 take a batch size that is a multiple of {world}, or another number of processes"
            );
            return Err(Error::Batch { reason });
        }
        Ok(rank * share..(rank + 1) * share)
    }
}

impl Variables {
    fn read(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Launch>> {
        // SLURM_PROCID alone is a batch script's.
        let both = self.launcher != Launcher::Slurm;
        if lookup(self.world).is_none() && (lookup(self.rank).is_none() || !both) {
            return Ok(None);
        }
        let world = number(self.world, lookup)?;
        let rank = number(self.rank, lookup)?;
        if world == 0 || rank >= world {
            return refuse(self.rank, format!("{rank} is not below {} = {world}", self.world));
        }
        let local = self.local.iter().find(|name| lookup(name).is_some()).unwrap_or(&self.local[0]);
        let local_rank = number(local, lookup)?;
        if local_rank > rank {
            return refuse(local, format!("{local_rank} is above {} = {rank}", self.rank));
        }
        Ok(Some(Launch { launcher: self.launcher, rank, world, local_rank }))
    }
}

fn number(name: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<usize> {
    let Some(text) = lookup(name) else {
        return refuse(
            name,
            "is not set, but others of its launcher are; start through the launcher, or unset them".into(),
        );
    };
    text.trim().parse().or_else(|_| refuse(name, format!("{text:?} is no number of processes")))
}

/// Where the ranks meet without MPI, `host:port` on rank 0's machine: `NCCL_COMM_ID`, or the port after
/// torchrun's own, which its agent holds.
///
/// # Errors
/// [`Error::Launcher`] where neither is known.
pub fn rendezvous(lookup: &dyn Fn(&str) -> Option<String>) -> Result<String> {
    if let Some(place) = lookup("NCCL_COMM_ID") {
        return Ok(place);
    }
    let Some(host) = lookup("MASTER_ADDR") else {
        return refuse(
            "MASTER_ADDR",
            "is not set; give the host of rank 0, and in MASTER_PORT a port".into(),
        );
    };
    let port = match lookup("MASTER_PORT") {
        Some(text) => text.trim().parse::<u16>().ok().and_then(|port| port.checked_add(1)),
        None => return refuse("MASTER_PORT", "is not set; give a port of MASTER_ADDR".into()),
    };
    match port {
        // An IPv6 address has colons of its own.
        Some(port) if host.contains(':') && !host.starts_with('[') => Ok(format!("[{host}]:{port}")),
        Some(port) => Ok(format!("{host}:{port}")),
        None => refuse("MASTER_PORT", "is no port below 65535".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(text: &str) -> Result<Launch> {
        Launch::from_variables(&lookup(text))
    }

    fn lookup(text: &str) -> impl Fn(&str) -> Option<String> {
        let pairs: Vec<(String, String)> = text
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        move |name| pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
    }

    const TORCHRUN: &str =
        "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=node0 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none";

    #[test]
    fn launchers_are_understood() {
        use Launcher::{Mpich, None, OpenMpi, Slurm, Torchrun};
        let cases = [
            ("", (None, 0, 1, 0)),
            (TORCHRUN, (Torchrun, 5, 8, 1)),
            ("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", (Torchrun, 0, 1, 0)),
            (
                "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0",
                (OpenMpi, 1, 2, 0),
            ),
            ("PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", (Mpich, 3, 4, 3)),
            ("PMI_RANK=3 PMI_SIZE=4 SLURM_LOCALID=1 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4", (Mpich, 3, 4, 1)),
            (
                "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_NTASKS=8",
                (Slurm, 2, 4, 0),
            ),
            // A batch script, and a shell in an allocation.
            ("SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_LOCALID=0", (None, 0, 1, 0)),
            ("MASTER_ADDR=node0 MASTER_PORT=29500 LOCAL_RANK=0", (None, 0, 1, 0)),
        ];
        for (text, (launcher, rank, world, local_rank)) in cases {
            assert_eq!(launch(text).unwrap(), Launch { launcher, rank, world, local_rank }, "{text}");
        }
        // mpiexec inside of SLURM, and one torchrun on each of two machines: the inner one counts.
        let slurm = "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_LOCALID=0";
        let inner = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1";
        assert_eq!(launch(&format!("{slurm} {inner}")).unwrap().world, 8);
        for outer in [slurm, inner] {
            assert_eq!(launch(&format!("{outer} {TORCHRUN}")).unwrap().launcher, Torchrun);
        }
    }

    #[test]
    fn what_is_half_set_or_contradicts_itself_is_named() {
        let mpi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1";
        let cases = [
            ("RANK=0", "WORLD_SIZE"),
            ("WORLD_SIZE=2", "RANK"),
            ("RANK=0 WORLD_SIZE=2", "LOCAL_RANK"),
            ("RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", "RANK"),
            ("RANK=0 WORLD_SIZE=0 LOCAL_RANK=0", "RANK"),
            ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=1", "LOCAL_RANK"),
            ("RANK=zero WORLD_SIZE=2 LOCAL_RANK=0", "RANK"),
            ("RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0", "RANK"),
            ("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE"),
            ("PMI_SIZE=2", "PMI_RANK"),
            ("PMI_SIZE=2 PMI_RANK=0", "MPI_LOCALRANKID"),
            ("SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID"),
            (&format!("{mpi} RANK=0 WORLD_SIZE=2 LOCAL_RANK=0"), "RANK"),
            (&format!("{mpi} RANK=0 WORLD_SIZE=1 LOCAL_RANK=0"), "RANK"),
        ];
        for (text, expected) in cases {
            let error = launch(text).unwrap_err();
            assert!(
                matches!(&error, Error::Launcher { variable, .. } if variable == expected),
                "{text}: {error}"
            );
        }
        // The same said twice is no contradiction.
        assert_eq!(launch(&format!("{mpi} RANK=1 WORLD_SIZE=2 LOCAL_RANK=1")).unwrap().world, 2);
    }

    #[test]
    fn the_ranks_meet_beside_torchruns_own_port() {
        let at = |text: &str| rendezvous(&lookup(text));
        assert_eq!(at(TORCHRUN).unwrap(), "node0:29501");
        assert_eq!(at("MASTER_ADDR=::1 MASTER_PORT=1").unwrap(), "[::1]:2");
        assert_eq!(at("NCCL_COMM_ID=10.0.0.1:5 MASTER_ADDR=x MASTER_PORT=1").unwrap(), "10.0.0.1:5");
        for (text, expected) in [
            ("", "MASTER_ADDR"),
            ("MASTER_ADDR=x", "MASTER_PORT"),
            ("MASTER_ADDR=x MASTER_PORT=65535", "MASTER_PORT"),
            ("MASTER_ADDR=x MASTER_PORT=http", "MASTER_PORT"),
        ] {
            let error = at(text).unwrap_err();
            assert!(
                matches!(&error, Error::Launcher { variable, .. } if variable == expected),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn shares_are_equal_and_cover_the_batch() {
        let shares: Vec<_> = (0..4).map(|rank| Launch::share(rank, 4, 12).unwrap()).collect();
        assert_eq!(shares, [0..3, 3..6, 6..9, 9..12]);
        assert_eq!(Launch::share(0, 1, 5).unwrap(), 0..5);
        for (world, batch) in [(2, 3), (4, 2), (2, 0)] {
            let error = Launch::share(0, world, batch).unwrap_err().to_string();
            assert!(error.contains(&world.to_string()) && error.contains(&batch.to_string()), "{error}");
        }
    }
}
