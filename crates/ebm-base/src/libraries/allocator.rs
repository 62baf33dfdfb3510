//! mimalloc, for programs whose allocator it is.

use std::ffi::{c_int, c_long};

// What is declared below is in it.
use libmimalloc_sys as _;

#[expect(unsafe_code, reason = "mimalloc's settings have no safe form")]
// SAFETY: the signatures are those of mimalloc.h.
unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
    fn mi_option_get(option: c_int) -> c_long;
}

/// `mi_option_purge_delay`: after how many milliseconds freed memory is given back to the system; -1 is never.
const PURGE_DELAY: c_int = 15;

/// From now on freed memory is kept for what is allocated next, unless `MIMALLOC_PURGE_DELAY` in the
/// environment says otherwise: a training step frees and allocates what the one before did, and the system
/// would clear each page again. True where that is so.
///
/// To be called once, before there are other threads.
#[expect(unsafe_code, reason = "mimalloc's settings have no safe form")]
pub fn keep_freed_memory() -> bool {
    // SAFETY: the option exists, and any value is one.
    unsafe {
        mi_option_set_default(PURGE_DELAY, -1);
        mi_option_get(PURGE_DELAY) < 0
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn freed_memory_is_kept() {
        // As the process was started.
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert!(super::keep_freed_memory());
        }
    }
}
