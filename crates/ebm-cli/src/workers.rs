//! How many threads compute, and how many read images.

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory};

/// The most threads of one kind: more than any one machine's processors, and few enough to start.
pub const MOST_THREADS: u32 = 1024;

/// The variable that says how many threads compute; candle asks it too.
const COMPUTING: &str = "RAYON_NUM_THREADS";

/// Starts the threads that compute, of which there may be none left on this machine. The command line `C`
/// says what is wrong with an absurd number.
pub fn start<C: CommandFactory>() -> Result<()> {
    let asked = std::env::var(COMPUTING).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(asked) = asked.filter(|&asked| asked > u64::from(MOST_THREADS)) {
        let detail = format!("{COMPUTING} is {asked}, and at most {MOST_THREADS} threads are started");
        C::command().error(ErrorKind::ValueValidation, detail).exit();
    }
    let pool = rayon::ThreadPoolBuilder::new();
    #[cfg(target_os = "linux")]
    let pool = pool.start_handler(|worker| crate::placement::place(worker, rayon::current_num_threads()));
    pool.build_global().with_context(|| {
        format!("the threads that compute do not start; {COMPUTING} sets how many there are")
    })
}

/// Threads that read images while others compute.
#[derive(Args, Clone, Copy, Debug)]
pub struct WorkersArgs {
    /// Threads that read and prepare images, at most 64; what is computed does not depend on it [default: as
    /// many as there are cores, at most 8].
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
