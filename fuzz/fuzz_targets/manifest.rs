//! Manifests of datasets and weights.
#![no_main]

use std::path::Path;

use ebm_data::fetch::Manifest;

libfuzzer_sys::fuzz_target!(|text: &str| drop(Manifest::parse(Path::new("set.toml"), text)));
