//! Numbers of threads that compute and that read images.

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory};

/// Largest number of threads of one kind: more than any machine's processors, and few enough to start.
pub const MOST_THREADS: u32 = 1024;

/// Environment variable that sets the number of threads that compute. candle reads it too.
const COMPUTING: &str = "RAYON_NUM_THREADS";

/// Starts the threads that compute. An absurd number is reported as an error of the command line `C`.
///
/// # Errors
/// If the machine cannot start that many threads.
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

/// Number of threads that read images while others compute.
#[derive(Args, Clone, Copy, Debug)]
pub struct WorkersArgs {
    /// Threads that read and prepare images, at most 64. Results do not depend on it [default: one for each core, at
    /// most 8].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: Option<u8>,
}

impl WorkersArgs {
    /// Returns the number of threads.
    pub fn count(self) -> usize {
        /// More threads would decode faster than a detector computes, and each holds a batch.
        const ENOUGH: usize = 8;
        let cores = || std::thread::available_parallelism().map_or(2, usize::from).min(ENOUGH);
        self.workers.map_or_else(cores, usize::from)
    }
}
