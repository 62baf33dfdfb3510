//! The methods that Table 2 compares here.

use serde::{Deserialize, Serialize};

/// How the boxes of a detection are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Faster-RCNN's regression.
    Direct,
    /// A confidence trained towards the IoU, with the energy model's proposal and inference.
    IouNetStar,
    /// The energy-based model, trained with Eq. 4.
    Ebm,
}

impl Method {
    /// In the table's order.
    pub const ALL: [Method; 3] = [Method::Direct, Method::IouNetStar, Method::Ebm];

    /// The name in result files.
    pub fn key(self) -> &'static str {
        match self {
            Method::Direct => "direct",
            Method::IouNetStar => "iou_net_star",
            Method::Ebm => "ebm",
        }
    }

    /// The name in the paper's Table 2.
    pub fn title(self) -> &'static str {
        match self {
            Method::Direct => "Direct (Faster-RCNN)",
            Method::IouNetStar => "IoU-Net*",
            Method::Ebm => "EBM (ours)",
        }
    }

    /// AP, AP50 and AP75 of Table 2, COCO test-dev, per cent.
    pub fn published(self) -> [f64; 3] {
        match self {
            Method::Direct => [37.2, 59.2, 40.3],
            Method::IouNetStar => [38.2, 58.4, 41.4],
            Method::Ebm => [39.4, 58.6, 42.1],
        }
    }
}
