//! What launchers tell a process of its place among the others.

use crate::error::{Result, refuse};

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
type Variables = (Launcher, &'static str, &'static str, &'static [&'static str]);

/// The innermost launcher first: SLURM starts the others, and `srun` may start one torchrun for each machine.
///
/// SLURM tells a batch script, which is one process, its job's number of tasks; the variable of a step is
/// there under `srun` alone.
const LAUNCHERS: [Variables; 4] = [
    (Launcher::Torchrun, "WORLD_SIZE", "RANK", &["LOCAL_RANK"]),
    (Launcher::OpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_LOCAL_RANK"]),
    (Launcher::Mpich, "PMI_SIZE", "PMI_RANK", &["MPI_LOCALRANKID", "SLURM_LOCALID"]),
    (Launcher::Slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", &["SLURM_LOCALID"]),
];

impl Launch {
    /// A process on its own.
    pub const ALONE: Self = Self { launcher: Launcher::None, rank: 0, world: 1, local_rank: 0 };

    /// The place of this process by the launcher's variables, whose values `lookup` gives.
    ///
    /// # Errors
    /// [`Error::Distributed`](crate::Error::Distributed) where a launcher's variables are there in part, are no numbers, or contradict each
    /// other or another launcher's.
    pub fn from_variables(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut found = Vec::new();
        for variables in LAUNCHERS {
            found.extend(read(variables, lookup)?);
        }
        let Some(&first) = found.first() else { return Ok(Self::ALONE) };
        // torchrun, which has a name for each run, may stand inside of another launcher; plain variables of
        // its names may be left over.
        let plain = first.launcher == Launcher::Torchrun && lookup("TORCHELASTIC_RUN_ID").is_none();
        let differs = |launch: &&Self| (launch.rank, launch.world) != (first.rank, first.world);
        let mpi = |launch: &&Self| matches!(launch.launcher, Launcher::OpenMpi | Launcher::Mpich);
        if let Some(other) = found.iter().filter(mpi).find(differs).filter(|_| plain) {
            return refuse(format!(
                "RANK and WORLD_SIZE say process {} of {}, mpiexec says {} of {}; unset them",
                first.rank, first.world, other.rank, other.world
            ));
        }
        Ok(first)
    }
}

fn read(
    (launcher, size, number, local): Variables,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Launch>> {
    // SLURM_PROCID alone is a batch script's.
    if lookup(size).is_none() && (lookup(number).is_none() || launcher == Launcher::Slurm) {
        return Ok(None);
    }
    let value = |name: &str| match lookup(name) {
        Some(text) => {
            text.trim().parse().or_else(|_| refuse(format!("{name}: {text:?} is no number of processes")))
        }
        None => refuse(format!(
            "{name} is not set, but others of its launcher are; start through it, or unset them"
        )),
    };
    let (world, rank): (usize, usize) = (value(size)?, value(number)?);
    if rank >= world {
        return refuse(format!("{number} = {rank} is not below {size} = {world}"));
    }
    let local = local.iter().find(|name| lookup(name).is_some()).unwrap_or(&local[0]);
    let local_rank = value(local)?;
    if local_rank > rank {
        return refuse(format!("{local} = {local_rank} is above {number} = {rank}"));
    }
    Ok(Some(Launch { launcher, rank, world, local_rank }))
}

/// Where the ranks meet without MPI, `host:port` on rank 0's machine: `NCCL_COMM_ID`, or the port after
/// torchrun's own, which its agent holds.
///
/// # Errors
/// [`Error::Distributed`](crate::Error::Distributed) where neither is known.
pub fn rendezvous(lookup: &dyn Fn(&str) -> Option<String>) -> Result<String> {
    if let Some(place) = lookup("NCCL_COMM_ID") {
        return Ok(place);
    }
    let value = |name: &str, what: &str| {
        lookup(name).map_or_else(|| refuse(format!("{name} is not set; give {what}")), Ok)
    };
    let host = value("MASTER_ADDR", "the host of rank 0, and in MASTER_PORT a port")?;
    let port = value("MASTER_PORT", "a port of MASTER_ADDR")?;
    match port.trim().parse::<u16>().ok().and_then(|port| port.checked_add(1)) {
        // An IPv6 address has colons of its own.
        Some(port) if host.contains(':') && !host.starts_with('[') => Ok(format!("[{host}]:{port}")),
        Some(port) => Ok(format!("{host}:{port}")),
        None => refuse("MASTER_PORT is no port below 65535"),
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
            let error = launch(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("training in several processes: {expected}")),
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
            let error = at(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("training in several processes: {expected}")),
                "{text}: {error}"
            );
        }
    }
}
