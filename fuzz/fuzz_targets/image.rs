//! JPEG, PNG, BMP and WebP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("a.jpg", bytes, |path| drop(ebm_data::decode::read_image(path)));
});
