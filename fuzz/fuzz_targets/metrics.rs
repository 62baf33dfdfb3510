//! The log of a training.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("metrics.jsonl", bytes, |path| drop(ebm_train::read_metrics(path)));
});
