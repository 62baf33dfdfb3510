//! Number of this process among the processes that a launcher has started.

use crate::distributed::refuse;
use crate::error::Result;

/// Place of a process among the processes that a launcher has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of this process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub world: usize,
    /// Number of this process among the processes of its machine, from 0.
    pub local_rank: usize,
}

/// Variables of a launcher: number of processes, rank, and local rank (the first that is set).
type Variables = (&'static str, &'static str, &'static [&'static str]);

/// Variables of torchrun, Open MPI's `mpiexec`, the `mpiexec` of MPICH and its relatives, and SLURM's `srun`.
///
/// SLURM also sets the job's number of tasks in a batch script, which is one process. The variable of a step is
/// set only under `srun`.
const LAUNCHERS: [Variables; 4] = [
    ("WORLD_SIZE", "RANK", &["LOCAL_RANK"]),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_LOCAL_RANK"]),
    ("PMI_SIZE", "PMI_RANK", &["MPI_LOCALRANKID", "SLURM_LOCALID"]),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", &["SLURM_LOCALID"]),
];

impl Launch {
    /// Place of a process that runs alone.
    pub const ALONE: Self = Self { rank: 0, world: 1, local_rank: 0 };

    /// Returns the place of this process from the launcher's variables, which `lookup` reads.
    ///
    /// # Errors
    /// [`Error::Distributed`](crate::Error::Distributed) if only some of a launcher's variables are set, if they
    /// are no numbers, or if they contradict each other.
    pub fn from_variables(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        // The innermost launcher comes first. SLURM starts the others. torchrun, which names its runs, may run
        // inside mpiexec; without such a name its variables may be left over.
        let mut order = [0, 1, 2, 3];
        if lookup("TORCHELASTIC_RUN_ID").is_none() {
            order = [1, 2, 0, 3];
        }
        let found = order.iter().find_map(|&launcher| read(LAUNCHERS[launcher], lookup).transpose());
        found.unwrap_or(Ok(Self::ALONE))
    }
}

fn read((size, number, local): Variables, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Launch>> {
    // SLURM_PROCID alone comes from a batch script.
    if lookup(size).is_none() && (lookup(number).is_none() || number == "SLURM_PROCID") {
        return Ok(None);
    }
    let value = |name: &str| match lookup(name).map(|text| text.trim().parse::<usize>()) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => refuse(format!("{name} is no number of processes")),
        None => refuse(format!(
            "{name} is not set, but others of its launcher are; start through it, or unset them"
        )),
    };
    let local = local.iter().find(|name| lookup(name).is_some()).unwrap_or(&local[0]);
    let (world, rank, local_rank) = (value(size)?, value(number)?, value(local)?);
    if rank >= world || local_rank > rank {
        return refuse(format!("{number} = {rank} is not below {size} = {world}, or below {local}"));
    }
    Ok(Some(Launch { rank, world, local_rank }))
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

    const TORCHRUN: &str = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none";

    #[test]
    fn launchers_are_understood() {
        let cases = [
            ("", (0, 1, 0)),
            (TORCHRUN, (5, 8, 1)),
            ("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", (0, 1, 0)),
            ("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0", (1, 2, 0)),
            ("PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3", (3, 4, 3)),
            ("PMI_RANK=3 PMI_SIZE=4 SLURM_LOCALID=1 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4", (3, 4, 1)),
            (
                "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_NTASKS=8",
                (2, 4, 0),
            ),
            // A batch script, and a shell in an allocation.
            ("SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_LOCALID=0", (0, 1, 0)),
            ("MASTER_ADDR=node0 MASTER_PORT=29500 LOCAL_RANK=0", (0, 1, 0)),
        ];
        for (text, (rank, world, local_rank)) in cases {
            assert_eq!(launch(text).unwrap(), Launch { rank, world, local_rank }, "{text}");
        }
        // mpiexec inside SLURM, and one torchrun on each of two machines: the inner launcher counts.
        let slurm = "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_LOCALID=0";
        let inner = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1";
        assert_eq!(launch(&format!("{slurm} {inner}")).unwrap().world, 8);
        for outer in [slurm, inner] {
            assert_eq!(launch(&format!("{outer} {TORCHRUN}")).unwrap().world, 8);
        }
    }

    #[test]
    fn what_is_half_set_or_contradicts_itself_is_named() {
        let cases = [
            ("RANK=0", "WORLD_SIZE"),
            ("WORLD_SIZE=2", "RANK"),
            ("RANK=0 WORLD_SIZE=2", "LOCAL_RANK"),
            ("RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", "RANK"),
            ("RANK=0 WORLD_SIZE=0 LOCAL_RANK=0", "RANK"),
            ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=1", "RANK"),
            ("RANK=zero WORLD_SIZE=2 LOCAL_RANK=0", "RANK"),
            ("RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0", "RANK"),
            ("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE"),
            ("PMI_SIZE=2", "PMI_RANK"),
            ("PMI_SIZE=2 PMI_RANK=0", "MPI_LOCALRANKID"),
            ("SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID"),
        ];
        for (text, expected) in cases {
            let error = launch(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("training in several processes: {expected}")),
                "{text}: {error}"
            );
        }
        // The variables of mpiexec have precedence over plain variables that are left over.
        let mpi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1";
        assert_eq!(launch(&format!("{mpi} RANK=0 WORLD_SIZE=1 LOCAL_RANK=0")).unwrap().world, 2);
    }
}
