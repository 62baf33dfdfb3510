//! FastestDet's settings.

use ebm_experiment::config::{Settings, settings};
use serde::{Deserialize, Serialize};

settings! {
    /// How FastestDet looks at an image.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct FastestDetConfig {
        /// Height and width of the network's input, a multiple of 32, whatever the image's.
        pub side: usize where 32..=4096 => "pixels",
        /// Detections need this score.
        pub score_threshold: f32 where 0.0..=1.0,
        /// Suppression threshold per class.
        pub nms: f32 where 0.0..=1.0,
    }
}

impl Settings for FastestDetConfig {
    const EMBEDDED: &'static [(&'static str, &'static str)] =
        &[("fastestdet", include_str!("../../configs/fastestdet.toml"))];

    fn check(&self) -> std::result::Result<(), String> {
        match self.side % 32 {
            0 => Ok(()),
            _ => Err(format!("side = {}; the network halves it five times: a multiple of 32", self.side)),
        }
    }
}
