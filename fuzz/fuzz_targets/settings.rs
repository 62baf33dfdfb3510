//! Settings of a reproduction.
#![no_main]

use ebm_detect::config::ExperimentConfig;

libfuzzer_sys::fuzz_target!(|text: &str| drop(ExperimentConfig::parse("c.toml", text)));
