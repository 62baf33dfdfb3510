//! Division of an epoch into batches.

use std::collections::BTreeMap;

use ebm_base::Key;

use super::LoaderConfig;
use super::recipe::Recipe;
use crate::draw::shuffle;

/// Returns the sample indices of each batch of `epoch`, a pure function of the arguments.
///
/// A sample joins the open batch of its group, and a batch gets its place in the order when it is full.
/// Incomplete batches come at the end. The number of batches is the same in every epoch.
pub(super) fn plan<R: Recipe>(
    dataset: &R::Dataset,
    config: &LoaderConfig<R>,
    key: Key,
    epoch: u64,
) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..R::count(dataset)).collect();
    if config.shuffle {
        shuffle(&mut order, &mut key.split("order").index(epoch).rng());
    }
    let mut batches = Vec::new();
    let mut open = BTreeMap::<usize, Vec<usize>>::new();
    for index in order {
        let group = open.entry(config.recipe.group(dataset, index)).or_default();
        group.push(index);
        if group.len() == config.batch_size {
            batches.push(std::mem::take(group));
        }
    }
    if !config.drop_last {
        batches.extend(open.into_values().filter(|batch| !batch.is_empty()));
    }
    if let Some(part) = &config.part {
        for batch in &mut batches {
            *batch = batch.get(part.clone()).unwrap_or_default().to_vec();
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coco::{CocoDataset, CocoImage};
    use crate::quarantine::Quarantine;
    use crate::transform::Transform;

    fn dataset(portrait: usize, landscape: usize) -> CocoDataset {
        let sizes = std::iter::repeat_n((4, 6), portrait).chain(std::iter::repeat_n((6, 6), landscape));
        let image = |(id, (width, height))| CocoImage {
            id,
            file_name: String::new(),
            path: std::path::PathBuf::new(),
            width,
            height,
            objects: Vec::new(),
        };
        let images = (0..).zip(sizes).map(image).collect();
        CocoDataset { images, categories: Vec::new(), quarantine: Quarantine::default() }
    }

    #[test]
    fn every_image_comes_once_in_batches_of_one_orientation() {
        let dataset = dataset(7, 10);
        let config = LoaderConfig::train(Transform::TORCHVISION, 3);
        for epoch in 0..5 {
            let plan = plan(&dataset, &config, Key::new(1), epoch);
            assert_eq!(plan.len(), 3 + 4);
            let mut all = plan.concat();
            all.sort_unstable();
            assert_eq!(all, (0..17).collect::<Vec<_>>());
            assert!(plan.iter().all(|batch| batch.iter().all(|&i| (i < 7) == (batch[0] < 7))));
        }
    }

    #[test]
    fn epochs_and_keys_differ_and_repeat() {
        let dataset = dataset(10, 10);
        let config = LoaderConfig::train(Transform::TORCHVISION, 2);
        let plan = |seed, epoch| plan(&dataset, &config, Key::new(seed), epoch);
        assert_eq!(plan(1, 0), plan(1, 0));
        assert_ne!(plan(1, 0), plan(1, 1));
        assert_ne!(plan(1, 0), plan(2, 0));
    }

    #[test]
    fn the_parts_of_processes_make_up_the_batches() {
        let dataset = dataset(7, 10);
        let whole = LoaderConfig { drop_last: true, ..LoaderConfig::train(Transform::TORCHVISION, 4) };
        let parts = [0..2, 2..4].map(|part| LoaderConfig::train(Transform::TORCHVISION, 4).part(part));
        let plan = |config| plan(&dataset, config, Key::new(1), 2);
        let [first, second] = parts.each_ref().map(plan);
        let joined: Vec<Vec<usize>> = first.iter().zip(&second).map(|(a, b)| [&a[..], b].concat()).collect();
        assert_eq!(joined, plan(&whole));
        assert!(parts[0].check().is_ok());
        for part in [0..0, 3..5] {
            assert!(parts[0].clone().part(part).check().is_err());
        }
        assert!(LoaderConfig { drop_last: false, ..parts[1].clone() }.check().is_err());
    }

    #[test]
    fn evaluation_keeps_the_order_and_drop_last_drops() {
        let dataset = dataset(3, 4);
        let mut config = LoaderConfig::eval(Transform::TORCHVISION, 3);
        assert_eq!(plan(&dataset, &config, Key::new(1), 0), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        config.drop_last = true;
        assert_eq!(plan(&dataset, &config, Key::new(1), 0).len(), 2);
    }
}
