//! This process's memory, where the system tells it.

use std::fs;

/// The largest resident size so far, or since [`forget_peak`], in MiB.
pub fn peak_mib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib / 1024)
}

/// Starts the peak anew from the present size. Where the system cannot, the peak goes on from the process's
/// start.
pub fn forget_peak() {
    const RESET_PEAK: &str = "5";
    // Without it the figure is larger, never smaller.
    let _ = fs::write("/proc/self/clear_refs", RESET_PEAK);
}
