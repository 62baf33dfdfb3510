//! Libraries that are opened at run time, so that a program also starts without them.
//!
//! | file | content |
//! |---|---|
//! | `shared_library` | access to the system's dynamic loader |
//! | `inventory` | inventory of CUDA's libraries, GPUs, NCCL and MPI, also without the feature `cuda` |
//! | `allocator` | with the feature `mimalloc`: settings of this allocator |
//! | `cuda` | with the feature `cuda`: functions of CUDA's libraries, for candle |
//!
//! `cuda` and `build.rs` can be removed once candle can open these libraries itself (cudarc's `dynamic-loading`).

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
