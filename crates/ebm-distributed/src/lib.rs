//! One training by several processes: each computes the gradient of its share of a batch, all of them take
//! the mean.
//!
//! | file | what |
//! |---|---|
//! | `launch` | who this process is, as torchrun, `srun` and `mpiexec` tell it |
//! | `group` | [`Group`]: means, agreement and failures, over any engine |
//! | `connect` | [`Engine`] by name, and its choice |
//! | `mpi` | MPI, opened at run time; tensors of any device, through the host |
//! | `nccl` | with the feature `cuda`: NVIDIA's NCCL, opened at run time |
//! | `threads` | the threads of one process as ranks |
//!
//! [`Reduce`] is what an engine has to offer. A group of one process does nothing and costs nothing.

mod connect;
mod error;
mod group;
mod launch;
mod mpi;
#[cfg(feature = "cuda")]
mod nccl;
mod threads;

use candle_core::Tensor;

pub use connect::{Engine, connect};
pub use error::{Error, Result};
pub use group::Group;
pub use launch::{Launch, Launcher, rendezvous};
pub use threads::Threads;

/// What ranks tell each other before they do anything together: the act, and numbers that it needs.
pub type Message = [u64; 4];

/// Communication between the ranks 0, 1, … of a training. Each method is called by all of them, in the same
/// order; [`Group`] sees to that.
pub trait Reduce {
    /// Which rank this is.
    fn rank(&self) -> usize;

    /// How many there are.
    fn world(&self) -> usize;

    /// The messages of every rank, in their order.
    ///
    /// # Errors
    /// [`Error::Distributed`](crate::Error::Distributed).
    fn exchange(&self, message: Message) -> Result<Vec<Message>>;

    /// The sum over the ranks of `vector (N)`, contiguous, `f32` or `f64`, on its device: the same bytes on
    /// every rank.
    ///
    /// # Errors
    /// [`Error::Distributed`](crate::Error::Distributed).
    fn sum(&self, vector: &Tensor) -> Result<Tensor>;

    /// Puts the bytes of rank `root` in the place of the others', which are as many.
    ///
    /// # Errors
    /// [`Error::Distributed`](crate::Error::Distributed).
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()>;

    /// Parts from the others, which do the same.
    fn close(&self);

    /// Ends the others, which may be waiting for this rank, as far as the engine can.
    fn abort(&self);
}

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
