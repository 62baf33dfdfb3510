//! Weights in PyTorch's format.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ebm_fuzz::file("a.pth", bytes, |path| drop(ebm_nn::import::load(path, &candle_core::Device::Cpu)));
});
