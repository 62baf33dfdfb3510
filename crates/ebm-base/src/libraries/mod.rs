//! Libraries that are opened at run time, so that a program starts on a machine that lacks them.
//!
//! | file | what |
//! |---|---|
//! | `shared_library` | the system's dynamic loader |
//! | `inventory` | which of CUDA's libraries, GPUs, NCCL and MPI there are, found without the feature `cuda` too |
//! | `allocator` | with the feature `mimalloc`: what this allocator of a program keeps |
//! | `cuda` | with the feature `cuda`: the functions of CUDA's libraries, for candle |
//!
//! `cuda` and `build.rs` can go as soon as candle can open these libraries itself (cudarc's
//! `dynamic-loading`).

#[cfg(feature = "mimalloc")]
mod allocator;
#[cfg(feature = "cuda")]
pub mod cuda;
mod inventory;
mod shared_library;

#[cfg(feature = "mimalloc")]
pub use allocator::keep_freed_memory;
pub use inventory::{CudaDevice, Inventory, Library, MPI, NCCL};
pub use shared_library::{SharedLibrary, open_first, open_first_mpi};
