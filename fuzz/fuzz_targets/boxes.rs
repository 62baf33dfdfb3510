//! Boxes of a sequence, one in each line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("groundtruth.txt", bytes, |path| drop(ebm_data::sequences::read_boxes(path)));
});
