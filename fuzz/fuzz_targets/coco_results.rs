//! Detections in COCO's format.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("r.json", bytes, |path| drop(ebm_eval::read_results(path)));
});
