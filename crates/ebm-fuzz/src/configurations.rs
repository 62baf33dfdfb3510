//! TOML and CSV that people write.

use ebm_experiment::config::Settings;

use crate::{Target, alone, text};

pub const TARGETS: &[Target] = &[
    Target {
        name: "detection-config",
        file: "c.toml",
        seeds: || vec![include_bytes!("../../ebm-detect/configs/mini.toml").to_vec()],
        prepare: alone,
        read: |path| Ok(ebm_detect::config::ExperimentConfig::parse("c.toml", &text(path)?).map(drop)?),
    },
    Target {
        name: "face-config",
        file: "c.toml",
        seeds: || vec![include_bytes!("../../ebm-face/configs/age_mini.toml").to_vec()],
        prepare: alone,
        read: |path| Ok(ebm_face::config::ExperimentConfig::parse("c.toml", &text(path)?).map(drop)?),
    },
    Target {
        name: "tracking-config",
        file: "c.toml",
        seeds: || vec![include_bytes!("../../ebm-track/configs/mini.toml").to_vec()],
        prepare: alone,
        read: |path| Ok(ebm_track::config::ExperimentConfig::parse("c.toml", &text(path)?).map(drop)?),
    },
    Target {
        name: "toy-config",
        file: "c.toml",
        seeds: || vec![include_bytes!("../../ebm-toy/configs/figure2.toml").to_vec()],
        prepare: alone,
        read: |path| Ok(ebm_toy::Experiment::parse("c.toml", &text(path)?).map(drop)?),
    },
    Target {
        name: "points",
        file: "p.csv",
        seeds: || vec![b"x,y\n1,2\n-0.5,3e-1\n".to_vec()],
        prepare: alone,
        read: |path| Ok(ebm_toy::Points::read_csv(path).map(drop)?),
    },
];
