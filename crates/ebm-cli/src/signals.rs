//! Handles Ctrl-C, a closed terminal and the like. The first signal lets a training finish its step and save, the
//! second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::exit;

/// Record of the signals that have arrived.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    arrived: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

/// Turns a write beyond the limit on file sizes into an ordinary error, as with a full disk. Without it a signal ends
/// the process silently.
pub fn report_file_size_limit() -> Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    flag::register(SIGXFSZ, ignored).map(drop).context("cannot listen for SIGXFSZ")
}

/// Gives a process that runs out of memory an exit code of its own. Rust prints the size of the allocation that failed,
/// and aborts.
pub fn report_memory() -> Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    let code = i32::from(exit::RESOURCES);
    flag::register_conditional_shutdown(SIGABRT, code, always).map(drop).context("cannot listen for SIGABRT")
}

/// Returns `true` if the process was started with SIGHUP ignored, as `nohup` does.
fn survives_its_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// Exit code of a process that a signal ended, less the signal's number.
const BASE: i32 = 128;

impl Signals {
    /// Takes over SIGINT, SIGTERM and, unless it is ignored, SIGHUP for the rest of the process. Before that, and in
    /// commands that save nothing, signals keep their usual effect.
    pub fn listen(&self) -> Result<Self> {
        let hangup = (!survives_its_terminal()).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            let register = || {
                // The order matters: the first signal finds the flag down, the second one up.
                flag::register_conditional_shutdown(signal, BASE + signal, self.arrived.clone())?;
                flag::register_usize(signal, self.number.clone(), signal as usize)?;
                flag::register(signal, self.arrived.clone())
            };
            register().with_context(|| format!("cannot listen for signal {signal}"))?;
        }
        Ok(self.clone())
    }

    /// Returns `true` if a signal has arrived.
    pub fn arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Returns the exit code for the signal that arrived.
    pub fn exit_code(&self) -> u8 {
        let number = match self.number.load(Ordering::Relaxed) {
            0 => SIGINT as usize,
            number => number,
        };
        u8::try_from(BASE as usize + number).unwrap_or(u8::MAX)
    }
}
