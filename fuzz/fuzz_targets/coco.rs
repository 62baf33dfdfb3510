//! COCO's annotations.
#![no_main]

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let options = LoadOptions { check_files: false, ..LoadOptions::new(Purpose::Train) };
    ebm_fuzz::file("a.json", bytes, |path| drop(CocoDataset::load(path, path, &options)));
});
