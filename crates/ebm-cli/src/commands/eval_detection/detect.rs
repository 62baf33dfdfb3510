//! A trained model on the images of an annotation file.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use ebm_data::{
    coco::CocoDataset,
    loader::{Loader, LoaderConfig},
};
use ebm_seed::Key;
use ebm_train::Progress;

use super::Set;
use crate::commands::predict::ModelArgs;
use crate::progress::Console;

/// On the images that `load` reads from `source`: detections of Faster-RCNN itself and, with a confidence,
/// before and after refinement, or with a density under its method's name; and the images.
pub fn detect(
    args: &ModelArgs,
    (source, load): (&Path, &dyn Fn(usize) -> Result<CocoDataset>),
    limit: Option<usize>,
    workers: usize,
) -> Result<(Vec<Set>, CocoDataset)> {
    let detector = args.open()?;
    let config = &detector.config().detector;
    let mut dataset =
        load(config.labels()).with_context(|| format!("{} on these annotations", args.weights_name()))?;
    detector.check_classes(source, &dataset)?;
    if let Some(limit) = limit {
        dataset.images.truncate(limit);
    }
    let dataset = Arc::new(dataset);
    let loader = LoaderConfig::eval(config.input.transform(), 1).with_workers(workers);
    let loader = Loader::new(dataset.clone(), loader, Key::new(0))?;
    let mut progress = Console::new();
    progress.begin("images", dataset.images.len());
    let evaluation = detector.evaluate(&dataset, &loader, &mut |done| progress.advance(done, ""))?;
    progress.end();
    let mut sets: Vec<Set> = vec![("direct".into(), evaluation.direct.detections)];
    let method = detector.method();
    sets.extend(evaluation.parametric.into_iter().map(|found| (method.into(), found.detections)));
    for refined in evaluation.refined {
        sets.extend([("before".into(), refined.before), ("refined".into(), refined.after)]);
    }
    drop(loader);
    Ok((sets, Arc::unwrap_or_clone(dataset)))
}
