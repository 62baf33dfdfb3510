//! What kinds of errors detections make, and how much average precision each kind costs: the six kinds and
//! their fixes as defined by Bolya, Foley, Hays and Hoffman, "TIDE: A General Toolbox for Identifying Object
//! Detection Errors" (ECCV 2020), sections 2.2 and 2.3.
//!
//! [`diagnose`] says of every detection and every object what became of it, and [`error_breakdown`] what each
//! kind of error costs. Detections are matched as COCO matches them at IoU 0.5: greedily by descending score,
//! at most 100 per image and category, and those that fall on a crowd count neither way.

mod diagnosis;
mod fix;
mod ranking;

pub use diagnosis::{Diagnosis, ErrorKind, ObjectOutcome, Outcome, diagnose};
pub use fix::{ErrorBreakdown, KindCost, ap50_with_fixed, error_breakdown};

/// t_f: from this IoU on, a box is on its object.
pub const FOREGROUND_IOU: f64 = 0.5;

/// t_b: below this IoU, a box is on the background.
pub const BACKGROUND_IOU: f64 = 0.1;
