//! A trained model on the images of an annotation file.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use ebm_data::{
    coco::{CocoDataset, LoadOptions, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_detect::Branch;
use ebm_detect::evaluation::{Contenders, Refiner, evaluate};
use ebm_seed::Key;
use ebm_train::Progress;

use super::Set;
use crate::commands::predict::{Model, ModelArgs};
use crate::progress::Console;

/// Detections of Faster-RCNN itself and, with a confidence, before and after refinement, or with a density under its method's name; and
/// the images.
pub fn detect(
    args: &ModelArgs,
    annotations: &Path,
    images: &Path,
    limit: Option<usize>,
    workers: usize,
) -> Result<(Vec<Set>, CocoDataset)> {
    let device = args.device()?;
    let model = Model::load(args, &device)?;
    let options =
        LoadOptions { labels: Some(model.config.detector.labels()), ..LoadOptions::new(Purpose::Eval) };
    let mut dataset = CocoDataset::load(annotations, images, &options)
        .with_context(|| format!("{} on these annotations", args.weights_name()))?;
    model.check_classes(annotations, &dataset)?;
    if let Some(limit) = limit {
        dataset.images.truncate(limit);
    }
    let dataset = Arc::new(dataset);
    let loader = LoaderConfig::eval(model.config.detector.input.transform(), 1).with_workers(workers);
    let loader = Loader::new(dataset.clone(), loader, Key::new(0))?;
    let mut contenders = Contenders::refiners(vec![]);
    match model.head.as_ref().map(|head| (&head.branch, &head.ascent)) {
        Some((Branch::Density(head), _)) => contenders.parametric.push(head),
        Some((Branch::Confidence(head), Some(ascent))) => {
            contenders.refiners.push(Refiner { head, ascent: ascent.clone() });
        }
        _ => {}
    }
    let mut progress = Console::new();
    progress.begin("images", dataset.images.len());
    let evaluation = evaluate(&model.detector, &dataset, &loader, &contenders, &device, &mut |done| {
        progress.advance(done, "");
    })?;
    progress.end();
    let mut sets: Vec<Set> = vec![("direct".into(), evaluation.direct.detections)];
    let method = model.head.as_ref().map_or("direct", |head| head.method.key());
    sets.extend(evaluation.parametric.into_iter().map(|found| (method.into(), found.detections)));
    for refined in evaluation.refined {
        sets.extend([("before".into(), refined.before), ("refined".into(), refined.after)]);
    }
    drop(loader);
    Ok((sets, Arc::unwrap_or_clone(dataset)))
}
