//! Training by several processes. Each computes the gradient of its share of a batch, and all use the mean of the
//! gradients.
//!
//! | file | content |
//! |---|---|
//! | `launch` | number of this process, from the variables of torchrun, `srun` and `mpiexec` |
//! | `group` | [`Group`]: means, agreement and failures, over any engine |
//! | `mpi` | MPI, opened at run time; tensors of any device, through the host |
//! | `nccl` | with the feature `cuda`: NVIDIA's NCCL, opened at run time |
//! | `threads` | the threads of one process as ranks |
//!
//! [`Reduce`] is the interface of an engine. A group of one process does nothing and costs nothing.

mod group;
mod launch;
mod mpi;
#[cfg(feature = "cuda")]
mod nccl;
mod threads;

pub use group::{Group, Reduce};
pub use launch::Launch;
pub use mpi::join_mpi;
#[cfg(feature = "cuda")]
pub use nccl::join_nccl;
pub use threads::Threads;

use crate::error::{Error, Result};

fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Distributed(reason.into()))
}
