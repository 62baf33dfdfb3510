//! A trained model on the images of an annotation file.

use std::{path::Path, sync::Arc};

use anyhow::{Result, bail};
use ebm_data::{
    coco::{Category, CocoDataset, LoadOptions, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_detect::evaluation::{Contenders, Refiner, evaluate};
use ebm_seed::Key;
use ebm_train::Progress;

use super::Set;
use crate::commands::predict::{Model, ModelArgs};
use crate::progress::Console;

/// Detections of Faster-RCNN itself and, with a confidence branch, before and after refinement; and the images.
pub fn detect(
    args: &ModelArgs,
    annotations: &Path,
    images: &Path,
    limit: Option<usize>,
) -> Result<(Vec<Set>, CocoDataset)> {
    let device = args.device()?;
    let model = Model::load(args, &device)?;
    let mut dataset = CocoDataset::load(annotations, images, &LoadOptions::new(Purpose::Eval))?;
    let known = dataset.categories.clone();
    dataset.categories = match labelled(&known, model.config.detector.num_classes) {
        Ok(categories) => categories,
        Err(mismatch) => {
            let file = annotations.display();
            let weights = args.weights_name();
            bail!(
                "{file} has {mismatch} of {weights}: give the annotations of the categories that it was trained on, \
                 or its own configuration with --config"
            )
        }
    };
    if let Some(limit) = limit {
        dataset.images.truncate(limit);
    }
    let dataset = Arc::new(dataset);
    let loader = LoaderConfig::eval(model.config.detector.input.transform(), 1);
    let loader = Loader::new(dataset.clone(), loader, Key::new(0))?;
    let refiners: Vec<Refiner> =
        model.head.iter().map(|head| Refiner { head: &**head, ascent: model.ascent.clone() }).collect();
    let mut progress = Console::new();
    progress.begin("images", dataset.images.len());
    let contenders = Contenders::refiners(refiners);
    let evaluation = evaluate(&model.detector, &dataset, &loader, &contenders, &device, &mut |done| {
        progress.advance(done, "");
    })?;
    progress.end();
    let mut sets: Vec<Set> = vec![("direct".into(), evaluation.direct.detections)];
    for refined in evaluation.refined {
        sets.extend([("before".into(), refined.before), ("refined".into(), refined.after)]);
    }
    for (_, detections) in &mut sets {
        detections.retain(|detection| known.iter().any(|category| category.id == detection.category_id));
    }
    drop(loader);
    Ok((sets, Arc::unwrap_or_clone(dataset)))
}

/// The category of each label of a detector with `num_classes` classes, the background included: the file's categories
/// in the order of their ids; or, where the detector has as many labels as the highest id (torchvision's 90 for COCO's
/// 80 categories), each at its own id, with categories of no meaning between them.
///
/// Else an error that says how the file and the detector differ.
fn labelled(categories: &[Category], num_classes: usize) -> std::result::Result<Vec<Category>, String> {
    let labels = num_classes.saturating_sub(1);
    if categories.len() == labels {
        return Ok(categories.to_vec());
    }
    let [lowest, highest] = [categories.first(), categories.last()].map(|c| c.map_or(0, |c| c.id));
    if lowest >= 1 && highest == labels as u64 {
        let named = |id| categories.iter().find(|category| category.id == id).cloned();
        let unused = |id| Category { id, name: format!("unused {id}") };
        return Ok((1..=highest).map(|id| named(id).unwrap_or_else(|| unused(id))).collect());
    }
    let count = categories.len();
    Err(format!("{count} categories (ids {lowest} to {highest}), not the {labels}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn categories(ids: &[u64]) -> Vec<Category> {
        ids.iter().map(|&id| Category { id, name: format!("c{id}") }).collect()
    }

    #[test]
    fn labels_are_positions_or_ids() {
        let gaps = categories(&[1, 2, 4]);
        assert_eq!(labelled(&gaps, 4).unwrap(), gaps);
        let spread = labelled(&gaps, 5).unwrap();
        assert_eq!(spread.iter().map(|c| c.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!((spread[3].name.as_str(), spread[2].name.as_str()), ("c4", "unused 3"));
        let mismatch = labelled(&gaps, 7).unwrap_err();
        assert_eq!(mismatch, "3 categories (ids 1 to 4), not the 6");
        assert!(labelled(&gaps, 3).is_err() && labelled(&categories(&[0, 4]), 5).is_err());
    }
}
