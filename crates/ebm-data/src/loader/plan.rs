//! Which images make up the batches of an epoch.

use ebm_seed::Key;
use rand::RngCore;

use super::LoaderConfig;
use crate::coco::CocoImage;

/// The image indices of each batch of `epoch`: a pure function of the arguments.
///
/// With grouping an image joins the open batch of its group and a batch takes its place in the order when it is
/// full; what is left over comes at the end. The number of batches is the same in every epoch.
pub(super) fn plan(images: &[CocoImage], config: &LoaderConfig, key: Key, epoch: u64) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..images.len()).collect();
    if config.shuffle {
        shuffle(&mut order, &mut key.split("order").index(epoch).rng());
    }
    let mut batches = Vec::new();
    let mut open = [Vec::new(), Vec::new()];
    for index in order {
        let portrait = images.get(index).is_some_and(|image| image.height > image.width);
        let group = &mut open[usize::from(config.group_by_aspect && portrait)];
        group.push(index);
        if group.len() == config.batch_size {
            batches.push(std::mem::take(group));
        }
    }
    if !config.drop_last {
        batches.extend(open.into_iter().filter(|batch| !batch.is_empty()));
    }
    batches
}

/// Fisher and Yates' shuffle. Written out, because the order is part of published results and a library's may
/// change; the bias of the multiplication, below len/2⁶⁴, is beyond notice.
fn shuffle(items: &mut [usize], rng: &mut dyn RngCore) {
    for last in (1..items.len()).rev() {
        let pick = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        items.swap(last, pick as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::Transform;

    fn images(portrait: usize, landscape: usize) -> Vec<CocoImage> {
        let sizes = std::iter::repeat_n((4, 6), portrait).chain(std::iter::repeat_n((6, 6), landscape));
        let image = |(id, (width, height))| CocoImage {
            id,
            file_name: String::new(),
            path: std::path::PathBuf::new(),
            width,
            height,
            objects: Vec::new(),
        };
        (0..).zip(sizes).map(image).collect()
    }

    #[test]
    fn every_image_comes_once_in_batches_of_one_orientation() {
        let images = images(7, 10);
        let config = LoaderConfig::train(Transform::TORCHVISION, 3);
        for epoch in 0..5 {
            let plan = plan(&images, &config, Key::new(1), epoch);
            assert_eq!(plan.len(), 3 + 4);
            let mut all = plan.concat();
            all.sort_unstable();
            assert_eq!(all, (0..17).collect::<Vec<_>>());
            assert!(plan.iter().all(|batch| batch.iter().all(|&i| (i < 7) == (batch[0] < 7))));
        }
    }

    #[test]
    fn epochs_and_keys_differ_and_repeat() {
        let images = images(10, 10);
        let config = LoaderConfig::train(Transform::TORCHVISION, 2);
        let plan = |seed, epoch| plan(&images, &config, Key::new(seed), epoch);
        assert_eq!(plan(1, 0), plan(1, 0));
        assert_ne!(plan(1, 0), plan(1, 1));
        assert_ne!(plan(1, 0), plan(2, 0));
    }

    #[test]
    fn evaluation_keeps_the_order_and_drop_last_drops() {
        let images = images(3, 4);
        let mut config = LoaderConfig::eval(Transform::TORCHVISION, 3);
        assert_eq!(plan(&images, &config, Key::new(1), 0), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        config.drop_last = true;
        assert_eq!(plan(&images, &config, Key::new(1), 0).len(), 2);
    }

    #[test]
    fn each_place_is_equally_likely() {
        // 6000 shuffles of 3: each of the 6 orders expects 1000, with a standard deviation of 29.
        let mut rng = Key::new(3).rng();
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            shuffle(&mut items, &mut rng);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (880..1120).contains(count)), "{counts:?}");
    }
}
