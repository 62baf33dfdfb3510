//! Heads and their poses in NumPy's archive.
#![no_main]

use ebm_data::faces::Tolerance;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("a.npz", bytes, |path| drop(ebm_face::biwi::read_npz(path, &Tolerance::default())));
});
