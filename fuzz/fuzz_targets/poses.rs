//! Heads and their poses in numpy's archive.
#![no_main]

use ebm_data::faces::biwi;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("a.npz", bytes, |path| drop(biwi::read_npz(path, &biwi::NpzOptions::default())));
});
