//! Archives, zip and tar, unpacked within a budget.
#![no_main]

use ebm_data::unpack::{Budget, unpack};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("a.zip", bytes, |path| {
        let target = path.with_extension("unpacked");
        let budget = Budget { max_entries: 100, max_bytes: 2 << 20 };
        drop(unpack(path, &target, &budget, false));
        drop(std::fs::remove_dir_all(target));
    });
});
