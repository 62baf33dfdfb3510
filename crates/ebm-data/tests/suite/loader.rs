//! The loader: the same batches whatever the threads, errors in their place, nothing left behind.

use std::path::Path;
use std::sync::Arc;

use crate::common::{digest, size_of, write_dataset};
use ebm_base::Key;
use ebm_data::Error;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::decode::read_image;
use ebm_data::loader::{Batch, Loader, LoaderConfig};
use ebm_data::quarantine::{DefectCode, Tolerance};
use ebm_data::transform::{ResizeRule, Transform};
use ebm_testing::fixture;

const SMALL: Transform =
    Transform { resize: ResizeRule { short_side: 32, max_side: 60 }, ..Transform::MASKRCNN_BENCHMARK };

const ANY: Tolerance = Tolerance { max_bad_fraction: 1., report: None };

fn dataset(dir: &Path, count: usize) -> Arc<CocoDataset> {
    let json = write_dataset(dir, count);
    Arc::new(CocoDataset::load(&json, dir, &LoadOptions::new(Purpose::Train)).unwrap())
}

fn config(batch_size: usize, workers: usize) -> LoaderConfig {
    LoaderConfig { workers, tolerance: ANY, ..LoaderConfig::train(SMALL, batch_size) }
}

#[test]
fn threads_do_not_change_the_batches() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 23);
    let run = |workers, prefetch, key, start| {
        let config = LoaderConfig { prefetch, ..config(3, workers) };
        let loader = Loader::new(Arc::clone(&dataset), config, key).unwrap();
        assert_eq!(loader.steps_per_epoch(), 8);
        digest(loader.batches(start..20).unwrap())
    };
    let reference = run(0, 1, Key::new(5), 0);
    for (workers, prefetch) in [(1, 1), (1, 4), (2, 4), (4, 2), (4, 9)] {
        assert_eq!(run(workers, prefetch, Key::new(5), 0), reference, "{workers} workers, {prefetch} ahead");
    }
    assert_ne!(run(2, 4, Key::new(6), 0), reference);

    // Resumed in the middle of the second epoch: the tail of the same sequence.
    let loader = Loader::new(Arc::clone(&dataset), config(3, 2), Key::new(5)).unwrap();
    let tail = digest(loader.batches(0..20).unwrap().skip(11));
    assert_eq!(run(2, 4, Key::new(5), 11), tail);
    assert_eq!(run(0, 4, Key::new(5), 11), tail);
}

#[test]
fn a_thousand_batches_are_the_same_with_0_1_4_and_16_threads() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 8);
    let run = |workers| {
        let loader = Loader::new(Arc::clone(&dataset), config(2, workers), Key::new(5)).unwrap();
        digest(loader.batches(0..1000).unwrap())
    };
    let reference = run(0);
    for workers in [1, 4, 16] {
        assert_eq!(run(workers), reference, "{workers} workers");
    }
}

#[test]
fn epochs_differ_and_hold_every_image_once() {
    let dir = tempfile::tempdir().unwrap();
    let loader = Loader::new(dataset(dir.path(), 10), config(2, 2), Key::new(1)).unwrap();
    let orders: Vec<Vec<usize>> = (0..3)
        .map(|epoch| {
            let batches: Vec<Batch> = loader.epoch(epoch).unwrap().map(|batch| batch.unwrap()).collect();
            assert!(batches.iter().all(|batch| batch.epoch == epoch));
            let steps: Vec<u64> = batches.iter().map(|batch| batch.step).collect();
            assert_eq!(steps, (0..6).map(|step| epoch * 6 + step).collect::<Vec<_>>());
            batches.iter().flat_map(|batch| batch.samples.iter().map(|sample| sample.index)).collect()
        })
        .collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<_>>());
    }
    assert_ne!(orders[0], orders[1]);
    assert_ne!(orders[1], orders[2]);
}

#[test]
fn batches_hold_the_transformed_images() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 8);
    let loader = Loader::new(Arc::clone(&dataset), config(4, 1), Key::new(2)).unwrap();
    let (mut flips, mut total) = (0, 0);
    for batch in loader.batches(0..20).unwrap() {
        let batch = batch.unwrap();
        let (n, c, h, w) = batch.shape;
        assert_eq!((n, c, h % 32, w % 32), (batch.samples.len(), 3, 0, 0));
        assert_eq!(batch.data.len(), n * c * h * w);
        for (sample, data) in batch.samples.iter().zip(batch.data.chunks_exact(c * h * w)) {
            let annotated = &dataset.images[sample.index];
            let (width, height) = size_of(sample.image_id as usize);
            assert_eq!(sample.original, (height, width));
            let image = read_image(&annotated.path).unwrap();
            let image = if sample.flipped { crate::common::mirrored(&image) } else { image };
            let (planes, size) = SMALL.apply(&image);
            assert_eq!((sample.height, sample.width), size);
            for channel in 0..3 {
                for row in 0..h {
                    let found = &data[(channel * h + row) * w..][..w];
                    let inside = if row < size.0 { size.1 } else { 0 };
                    let expected = &planes[(channel * size.0 + row.min(size.0 - 1)) * size.1..][..inside];
                    assert_eq!(&found[..inside], expected);
                    assert!(found[inside..].iter().all(|&number| number == 0.));
                }
            }
            // The annotated box is (id, 2, id + 11, 15).
            let id = sample.image_id as f32;
            let (across, down) = (size.1 as f32 / width as f32, size.0 as f32 / height as f32);
            let (x0, x1) =
                if sample.flipped { (width as f32 - id - 11., width as f32 - id) } else { (id, id + 11.) };
            let expected = [x0 * across, 2. * down, x1 * across, 15. * down];
            assert!(sample.boxes[0].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4));
            assert_eq!(sample.labels, [1]);
            flips += usize::from(sample.flipped);
            total += 1;
        }
    }
    // 80 fair coins: outside 20..60 with probability 5e-6, and the seed is fixed.
    assert!(total == 80 && (20..60).contains(&flips), "{flips} of {total}");
}

#[test]
fn evaluation_is_in_order_and_unflipped() {
    let dir = tempfile::tempdir().unwrap();
    let loader = Loader::new(dataset(dir.path(), 5), LoaderConfig::eval(SMALL, 2), Key::new(0)).unwrap();
    let batches: Vec<Batch> = loader.epoch(0).unwrap().map(|batch| batch.unwrap()).collect();
    let samples: Vec<_> = batches.iter().flat_map(|batch| &batch.samples).collect();
    assert_eq!(samples.iter().map(|sample| sample.image_id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(samples.iter().all(|sample| !sample.flipped));
}

/// Truncates images 3 and 12, fills 7 with garbage, removes 8 and gives 9 another size.
fn spoil(dir: &Path) -> Vec<(u64, DefectCode)> {
    for id in [3, 12] {
        let path = dir.join(format!("{id:03}.jpg"));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    }
    std::fs::write(dir.join("007.jpg"), [0x55; 999]).unwrap();
    std::fs::remove_file(dir.join("008.jpg")).unwrap();
    ebm_data::encode::write_jpeg(&dir.join("009.jpg"), &crate::common::picture(9, 9), 90).unwrap();
    use DefectCode::{MissingFile, SizeMismatch, UnreadableImage};
    vec![
        (3, UnreadableImage),
        (7, UnreadableImage),
        (8, MissingFile),
        (9, SizeMismatch),
        (12, UnreadableImage),
    ]
}

#[test]
fn defective_images_are_left_out_and_listed_once() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 20);
    let expected = spoil(dir.path());
    let report = dir.path().join("defects.jsonl");
    let mut digests = Vec::new();
    for workers in [0, 3] {
        let config = LoaderConfig {
            tolerance: Tolerance { report: Some(report.clone()), max_bad_fraction: 0.25 },
            ..config(2, workers)
        };
        let loader = Loader::new(Arc::clone(&dataset), config, Key::new(9)).unwrap();
        let mut seen = Vec::new();
        for batch in loader.batches(0..3 * loader.steps_per_epoch()).unwrap() {
            seen.extend(batch.unwrap().samples.iter().map(|sample| sample.image_id));
        }
        seen.sort_unstable();
        let bad = |id: &u64| expected.iter().any(|(bad, _)| bad == id);
        assert_eq!(seen, (0..20).filter(|id| !bad(id)).flat_map(|id| [id; 3]).collect::<Vec<_>>());
        let defects = loader.quarantine().defects;
        let mut found: Vec<_> = defects
            .iter()
            .map(|defect| {
                (defect.sample.strip_prefix("image ").unwrap().parse::<u64>().unwrap(), defect.code)
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(std::fs::read_to_string(&report).unwrap().lines().count(), 5);
        digests.push((digest(loader.batches(0..20).unwrap()), defects));
    }
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn a_batch_is_padded_for_the_images_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 2);
    let run = || {
        let mut config = config(2, 1);
        (config.recipe.group_by_aspect, config.recipe.flip_probability) = (false, 0.);
        let loader = Loader::new(Arc::clone(&dataset), config, Key::new(0)).unwrap();
        loader.epoch(0).unwrap().next().unwrap().unwrap()
    };
    // 48x40 becomes 38x32 and 36x51 becomes 32x45.
    assert_eq!(run().shape, (2, 3, 64, 64));
    std::fs::write(dir.path().join("001.jpg"), b"no").unwrap();
    let batch = run();
    assert_eq!((batch.shape, batch.data.len()), ((1, 3, 32, 64), 3 * 32 * 64));
    let (planes, _) = SMALL.apply(&read_image(&dir.path().join("000.jpg")).unwrap());
    assert_eq!(batch.data[..38], planes[..38]);
    assert!(batch.data[38..64].iter().all(|&number| number == 0.));
}

#[test]
fn too_many_defective_images_end_the_iteration_at_a_fixed_step() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 20);
    spoil(dir.path());
    let mut ends = Vec::new();
    for workers in [0, 1, 4] {
        let config = LoaderConfig {
            tolerance: Tolerance { max_bad_fraction: 0.15, report: None },
            ..config(2, workers)
        };
        let loader = Loader::new(Arc::clone(&dataset), config, Key::new(4)).unwrap();
        let mut batches = loader.epoch(0).unwrap();
        let mut good = Vec::new();
        let error = loop {
            match batches.next().unwrap() {
                Ok(batch) => good.push(batch.step),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::TooManyDefects { bad: 4, total: 20, .. }), "{error}");
        assert!(batches.next().is_none());
        ends.push((good, error.to_string()));
    }
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

/// A training asks for batches without an end: of images none of which can be read, there is none to wait
/// for.
#[test]
fn where_every_image_is_defective_the_iteration_ends_whatever_is_tolerated() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 3);
    for image in &dataset.images {
        std::fs::write(&image.path, b"no").unwrap();
    }
    for workers in [0, 2] {
        let config = LoaderConfig { tolerance: ANY, ..config(1, workers) };
        let loader = Loader::new(Arc::clone(&dataset), config, Key::new(4)).unwrap();
        let error = loader.batches(0..u64::MAX).unwrap().next().unwrap().unwrap_err();
        assert!(matches!(error, Error::TooManyDefects { bad: 3, total: 3, .. }), "{error}");
        assert!(error.to_string().contains("none is left"), "{error}");
    }
}

#[test]
fn a_failing_machine_is_an_error_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 6);
    // A directory in place of a file is neither missing nor a bad image.
    std::fs::remove_file(dir.path().join("004.jpg")).unwrap();
    std::fs::create_dir(dir.path().join("004.jpg")).unwrap();
    for workers in [0, 2] {
        let config = LoaderConfig { workers, ..LoaderConfig::eval(SMALL, 1) };
        let loader = Loader::new(Arc::clone(&dataset), config, Key::new(4)).unwrap();
        let outcomes: Vec<_> = loader.epoch(0).unwrap().collect();
        assert_eq!(outcomes.len(), 5);
        assert!(outcomes[..4].iter().all(Result::is_ok));
        let error = outcomes[4].as_ref().unwrap_err();
        assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("004.jpg"), "{error}");
    }
}

#[test]
fn an_epoch_of_bad_images_only_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 3);
    (0..3).for_each(|id| std::fs::write(dir.path().join(format!("{id:03}.jpg")), b"no").unwrap());
    let loader = Loader::new(dataset, config(1, 2), Key::new(4)).unwrap();
    let outcomes: Vec<_> = loader.epoch(0).unwrap().collect();
    assert!(matches!(outcomes[..], [Err(Error::TooManyDefects { bad: 3, total: 3, .. })]));
    assert_eq!(loader.quarantine().defects.len(), 3);
}

#[test]
fn settings_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 3);
    let new =
        |config| Loader::new(Arc::clone(&dataset), config, Key::new(0)).err().map(|error| error.to_string());
    assert_eq!(new(config(2, 2)), None);
    let said = |config, name: &str| new(config).is_some_and(|text| text.contains(name));
    assert!(said(config(0, 2), "batch_size"));
    assert!(said(LoaderConfig { prefetch: 0, ..config(2, 2) }, "prefetch"));
    assert!(said(LoaderConfig { drop_last: true, ..config(9, 2) }, "no batch"));
    let mut nan = config(2, 2);
    nan.recipe.flip_probability = f64::NAN;
    assert!(said(nan, "flip_probability"));
    let mut zero = config(2, 2);
    zero.recipe.transform.resize.max_side = 0;
    assert!(said(zero, "max_side"));
}

#[test]
fn dropping_early_stops_the_threads() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 12);
    for taken in 0..4 {
        let loader = Loader::new(Arc::clone(&dataset), config(2, 4), Key::new(4)).unwrap();
        let mut batches = loader.batches(0..u64::MAX).unwrap();
        (0..taken).for_each(|_| drop(batches.next().unwrap().unwrap()));
        drop((batches, loader));
        // The threads held the dataset.
        assert_eq!(Arc::strong_count(&dataset), 1);
    }
}

#[test]
fn real_images_load() {
    let dir = fixture("coco");
    let json = dir.join("annotations/instances_val2017.json");
    let load = LoadOptions::new(Purpose::Train);
    let dataset = Arc::new(CocoDataset::load(&json, &dir.join("val2017"), &load).unwrap());
    let rule = ResizeRule { short_side: 160, max_side: 266 };
    for transform in [Transform::MASKRCNN_BENCHMARK, Transform::TORCHVISION] {
        let transform = Transform { resize: rule, ..transform };
        let loader =
            Loader::new(Arc::clone(&dataset), LoaderConfig::train(transform, 2), Key::new(1)).unwrap();
        let mut images = 0;
        for batch in loader.epoch(0).unwrap() {
            let batch = batch.unwrap();
            images += batch.samples.len();
            let portrait = |(height, width): (usize, usize)| height > width;
            assert!(
                batch.samples.iter().all(|s| portrait(s.original) == portrait(batch.samples[0].original))
            );
            for sample in &batch.samples {
                let (width, height) = (sample.width as f32 + 1e-3, sample.height as f32 + 1e-3);
                let inside = |[x0, y0, x1, y1]: &[f32; 4]| {
                    *x0 > -1e-3 && *y0 > -1e-3 && x0 < x1 && y0 < y1 && *x1 < width && *y1 < height
                };
                assert!(sample.boxes.iter().all(inside), "{sample:?}");
            }
        }
        assert_eq!(images, 4);
        assert!(loader.quarantine().defects.is_empty());
    }
}
