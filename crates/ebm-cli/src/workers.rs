//! How many threads read images.

use clap::Args;

/// Threads that read images while others compute.
#[derive(Args, Clone, Copy, Debug)]
pub struct WorkersArgs {
    /// Threads that read and prepare images, at most 64; what is computed does not depend on it [default: as many as there are cores, at
    /// most 8].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: Option<u8>,
}

impl WorkersArgs {
    /// How many there are to be.
    pub fn count(self) -> usize {
        /// More decode faster than a detector computes, and each holds a batch.
        const ENOUGH: usize = 8;
        let cores = || std::thread::available_parallelism().map_or(2, usize::from).min(ENOUGH);
        self.workers.map_or_else(cores, usize::from)
    }
}
