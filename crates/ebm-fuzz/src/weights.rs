//! Weight files: safetensors and torch's two formats.

use std::path::Path;

use candle_core::Device;

use crate::{Refusal, Target, alone};

pub const TARGETS: &[Target] = &[
    Target { name: "safetensors", file: "a.safetensors", seeds: safetensors, prepare: alone, read },
    Target { name: "pth", file: "a.pth", seeds: zipped, prepare: alone, read },
    Target { name: "pickle", file: "a.pth", seeds: pickles, prepare: alone, read },
];

fn safetensors() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-nn/tests/golden/legacy.safetensors").to_vec(),
        include_bytes!("../../ebm-nn/tests/golden/pth.safetensors").to_vec(),
    ]
}

fn zipped() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-nn/tests/golden/flat.pth").to_vec(),
        include_bytes!("../../ebm-nn/tests/golden/nested.pth").to_vec(),
    ]
}

fn pickles() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-nn/tests/golden/legacy.pth").to_vec(),
        include_bytes!("../../ebm-nn/tests/golden/legacy_nested.pth").to_vec(),
    ]
}

fn read(path: &Path) -> Result<(), Refusal> {
    Ok(ebm_nn::import::load(path, &Device::Cpu).map(drop)?)
}
