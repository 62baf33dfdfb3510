//! Ctrl-C, a closed terminal and the like: the first signal lets a training finish its step and save, the
//! second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::exit;

/// What has arrived so far.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    arrived: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

/// Makes a write beyond the limit on file sizes an error like any full disk's, instead of a signal that ends
/// the process without a word.
pub fn report_file_size_limit() -> Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    flag::register(SIGXFSZ, ignored).map(drop).context("cannot listen for SIGXFSZ")
}

/// Makes the end of a process that has got no memory one with an exit code of its own: Rust says how much was
/// asked for, and aborts.
pub fn report_memory() -> Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    let code = i32::from(exit::RESOURCES);
    flag::register_conditional_shutdown(SIGABRT, code, always).map(drop).context("cannot listen for SIGABRT")
}

/// Whether the process was started with its terminal's end ignored, as `nohup` does.
fn survives_its_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// A process that a signal ended exits with this and the signal's number.
const BASE: i32 = 128;

impl Signals {
    /// Takes over SIGINT, SIGTERM and, unless it is ignored, SIGHUP for the rest of the process; before, and
    /// in commands that save nothing, they keep their usual effect.
    pub fn listen(&self) -> Result<Self> {
        let hangup = (!survives_its_terminal()).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            let register = || {
                // In this order: a first signal finds the flag down, a second one up.
                flag::register_conditional_shutdown(signal, BASE + signal, self.arrived.clone())?;
                flag::register_usize(signal, self.number.clone(), signal as usize)?;
                flag::register(signal, self.arrived.clone())
            };
            register().with_context(|| format!("cannot listen for signal {signal}"))?;
        }
        Ok(self.clone())
    }

    /// Whether one has arrived.
    pub fn arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
    }

    /// The exit code that says which.
    pub fn exit_code(&self) -> u8 {
        let number = match self.number.load(Ordering::Relaxed) {
            0 => SIGINT as usize,
            number => number,
        };
        u8::try_from(BASE as usize + number).unwrap_or(u8::MAX)
    }
}
