//! Settings of mimalloc, for programs that use it as their allocator.

use std::ffi::{c_int, c_long};

// This crate links the functions that are declared below.
use libmimalloc_sys as _;

#[expect(unsafe_code, reason = "mimalloc's settings have no safe form")]
// SAFETY: the signatures equal the ones in mimalloc.h.
unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
    fn mi_option_get(option: c_int) -> c_long;
}

/// Number of the option `mi_option_purge_delay`: the delay in milliseconds before freed memory returns to the
/// system; −1 is never.
const PURGE_DELAY: c_int = 15;

/// Makes mimalloc keep freed memory for later allocations, unless `MIMALLOC_PURGE_DELAY` in the environment says
/// otherwise. A training step frees and allocates the same sizes as the step before, and the system would clear
/// every page again. Returns whether freed memory is kept.
///
/// Call this function once, before other threads start.
#[expect(unsafe_code, reason = "mimalloc's settings have no safe form")]
pub fn keep_freed_memory() -> bool {
    // SAFETY: the option exists, and every value of it is valid.
    unsafe {
        mi_option_set_default(PURGE_DELAY, -1);
        mi_option_get(PURGE_DELAY) < 0
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn freed_memory_is_kept() {
        // The environment of the process decides.
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert!(super::keep_freed_memory());
        }
    }
}
