//! A trained model on the images of an annotation file.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use ebm_data::coco::CocoDataset;
use ebm_train::Progress;

use super::Set;
use crate::commands::predict::ModelArgs;
use crate::progress::Console;

/// On the images that `load` reads from `source`: detections of the detector itself and, with a confidence,
/// before and after refinement, or with a density under its method's name; and the images.
pub fn detect(
    args: &ModelArgs,
    source: &Path,
    load: &dyn Fn(Option<usize>) -> Result<CocoDataset>,
    limit: Option<usize>,
    workers: usize,
) -> Result<(Vec<Set>, CocoDataset)> {
    let detector = args.open(0.0)?;
    let mut dataset =
        load(detector.labels()).with_context(|| format!("{} on these annotations", args.weights_name()))?;
    detector.check_classes(source, &dataset)?;
    if let Some(limit) = limit {
        dataset.images.truncate(limit);
    }
    let dataset = Arc::new(dataset);
    let mut progress = Console::new();
    progress.begin("images", dataset.images.len());
    let evaluation = detector.evaluate(&dataset, workers, &mut |done| progress.advance(done, ""))?;
    progress.end();
    let mut sets: Vec<Set> = vec![("direct".into(), evaluation.direct.detections)];
    let method = detector.method();
    sets.extend(evaluation.parametric.into_iter().map(|found| (method.into(), found.detections)));
    for refined in evaluation.refined {
        sets.extend([("before".into(), refined.before), ("refined".into(), refined.after)]);
    }
    Ok((sets, Arc::unwrap_or_clone(dataset)))
}
