//! Batches of pairs: what they show, where the boxes are, and that threads do not matter.

use std::path::Path;
use std::sync::Arc;

use ebm_base::Key;
use ebm_data::encode::write_png;
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::quarantine::{DefectCode, Tolerance};
use ebm_data::sequences::crop::SearchArea;
use ebm_data::sequences::pairs::{PairRecipe, PairSample};
use ebm_data::sequences::sampler::{PairSampler, PairSampling, Source};
use ebm_data::sequences::variation::Variation;
use ebm_data::sequences::{Frames, Sequence};
use ebm_data::transform::Normalise;
use ebm_data::{Error, Image};

const SIZE: usize = 48;
/// Crops a third as large as ATOM's, otherwise the same.
const SMALL: PairRecipe = PairRecipe { area: SearchArea { factor: 5., size: SIZE }, ..PairRecipe::ATOM };

/// Frames of 64 × 48 pixels, red target on blue, that moves by 1 pixel in each frame.
fn video(dir: &Path, name: &str, frames: usize) -> Sequence {
    let directory = dir.join(name);
    let mut boxes = Vec::new();
    for i in 0..frames {
        let (x, y, width, height) = (10 + i, 15, 9, 7);
        let mut image = Image::filled(64, 48, [20, 40, 200]).unwrap();
        for row in y..y + height {
            image.pixels[3 * (row * 64 + x)..][..3 * width].copy_from_slice(&[220, 60, 10].repeat(width));
        }
        write_png(&directory.join(format!("{i}.png")), &image).unwrap();
        boxes.push([x, y, width, height].map(|number| number as f64));
    }
    let frames = Frames::Listed((0..frames).map(|i| directory.join(format!("{i}.png"))).collect());
    Sequence { name: name.to_owned(), frames, boxes, visible: None }
}

fn sampler(sequences: Vec<Sequence>, pairs_per_epoch: usize) -> Arc<PairSampler> {
    let sampling = PairSampling { pairs_per_epoch, max_gap: 6 };
    Arc::new(PairSampler::new(vec![Source { sequences, weight: 1. }], sampling).unwrap())
}

type Planes = Vec<f32>;

fn samples(loader: &Loader<PairRecipe>, epoch: u64) -> Vec<(PairSample, Planes)> {
    let mut all = Vec::new();
    for batch in loader.epoch(epoch).unwrap() {
        let batch = batch.unwrap();
        let (count, channels, height, width) = batch.shape;
        assert_eq!((channels, height, width), (3, 2 * batch.shape.3, batch.shape.3));
        assert_eq!((count, batch.data.len()), (batch.samples.len(), count * 3 * height * width));
        let planes = batch.data.chunks_exact(3 * height * width).map(<[f32]>::to_vec);
        all.extend(batch.samples.iter().cloned().zip(planes));
    }
    all
}

fn config(recipe: PairRecipe, batch_size: usize, workers: usize) -> LoaderConfig<PairRecipe> {
    LoaderConfig { workers, ..LoaderConfig::in_order(recipe, batch_size) }
}

#[test]
fn threads_and_batches_do_not_matter_and_epochs_differ() {
    let dir = tempfile::tempdir().unwrap();
    let sampler = sampler(vec![video(dir.path(), "a", 25), video(dir.path(), "b", 20)], 20);
    let read = |workers, size, epoch, seed| {
        let loader = Loader::new(Arc::clone(&sampler), config(SMALL, size, workers), Key::new(seed)).unwrap();
        samples(&loader, epoch)
    };
    let first = read(0, 7, 0, 1);
    assert_eq!(first.len(), 20);
    assert_eq!(first.iter().map(|(sample, _)| sample.index).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(first == read(1, 7, 0, 1) && first == read(3, 4, 0, 1));
    assert!(first != read(0, 7, 1, 1) && first != read(0, 7, 0, 2));
}

/// The centre of what is redder than blue in a crop, in pixels, and how many pixels that are.
fn centre_of_red(planes: &[f32], row: usize) -> ([f64; 2], f64) {
    let Normalise { mean, std, .. } = Normalise::IMAGENET;
    let value = |channel: usize, place: usize| {
        planes[channel * 2 * SIZE * SIZE + place] * std[channel] + mean[channel]
    };
    let (mut sum, mut count) = ([0.; 2], 0.);
    for (y, x) in (0..SIZE).flat_map(|y| (0..SIZE).map(move |x| (y, x))) {
        let place = (row + y) * SIZE + x;
        if value(0, place) > value(2, place) {
            sum = [sum[0] + x as f64 + 0.5, sum[1] + y as f64 + 0.5];
            count += 1.;
        }
    }
    (sum.map(|total| total / count), count)
}

#[test]
fn the_boxes_lie_on_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let sampler = sampler(vec![video(dir.path(), "a", 25)], 40);
    let recipe = PairRecipe { grey_probability: 0., scale_jitter: 0.2, centre_jitter: 3., ..SMALL };
    let loader = Loader::new(sampler, config(recipe, 8, 0), Key::new(3)).unwrap();
    let mut moved = 0;
    for (PairSample { pair, reference_box, test_box, .. }, planes) in samples(&loader, 0) {
        assert!(pair.reference != pair.test && pair.reference.abs_diff(pair.test) <= 6);
        for (row, place) in [(0, reference_box), (SIZE, test_box)] {
            let [x, y, width, height] = place.map(f64::from);
            let (centre, count) = centre_of_red(&planes, row);
            // Half a pixel by ATOM's rule, half a pixel of the image, here up to 48/25, by rounding, and a
            // bit.
            assert!((centre[0] - 0.5 - x - width / 2.).abs() < 1.3, "{centre:?} {place:?}");
            assert!((centre[1] - 0.5 - y - height / 2.).abs() < 1.3, "{centre:?} {place:?}");
            assert!((count / (width * height) - 1.).abs() < 0.35, "{count} {place:?}");
        }
        let middle = |side: usize| f64::from(reference_box[side] + reference_box[side + 2] / 2.);
        assert!([0, 1].iter().all(|&side| (middle(side) - 23.5).abs() < 1e-4));
        moved += usize::from((test_box[0] - reference_box[0]).abs() > 2.);
    }
    assert!(moved > 20, "{moved}");
}

#[test]
fn a_single_frame_comes_twice() {
    let dir = tempfile::tempdir().unwrap();
    let recipe =
        PairRecipe { scale_jitter: 0., centre_jitter: 0., brightness: 0., grey_probability: 0., ..SMALL };
    let loader =
        Loader::new(sampler(vec![video(dir.path(), "a", 1)], 3), config(recipe, 8, 0), Key::new(3)).unwrap();
    for (PairSample { reference_box, test_box, .. }, planes) in samples(&loader, 0) {
        assert_eq!(reference_box, test_box);
        for plane in planes.chunks_exact(2 * SIZE * SIZE) {
            let (upper, lower) = plane.split_at(SIZE * SIZE);
            assert_eq!(upper, lower);
        }
    }
}

/// What normalisation is undone to, of the first and the last pixel of both crops.
fn colours(planes: &[f32]) -> Vec<[f32; 3]> {
    let Normalise { mean, std, .. } = Normalise::IMAGENET;
    let len = 2 * SIZE * SIZE;
    let at = |place: usize| [0, 1, 2].map(|c| planes[c * len + place] * std[c] + mean[c]);
    [0, len / 2 - 1, len / 2, len - 1].map(at).to_vec()
}

#[test]
fn colours_are_augmented_as_said() {
    let dir = tempfile::tempdir().unwrap();
    // Little jitter, so that the corners of both crops show the background.
    let calm = PairRecipe { scale_jitter: 0.1, centre_jitter: 0., ..SMALL };
    let grey = |probability| PairRecipe { grey_probability: probability, ..calm };
    let read = |recipe, count| {
        let sampler = sampler(vec![video(dir.path(), "a", 25)], count);
        samples(&Loader::new(sampler, config(recipe, 8, 0), Key::new(4)).unwrap(), 0)
    };
    let is_grey = |[red, green, blue]: [f32; 3]| (red - green).abs() < 1e-5 && (red - blue).abs() < 1e-5;
    let greys = |recipe, count| {
        let both = |(_, planes): &(PairSample, Planes)| {
            let found: Vec<bool> = colours(planes).into_iter().map(is_grey).collect();
            assert!(found.iter().all(|&grey| grey == found[0]), "both crops or neither");
            found[0]
        };
        read(recipe, count).iter().filter(|sample| both(sample)).count()
    };
    assert_eq!((greys(grey(0.), 20), greys(grey(1.), 20)), (0, 20));
    // Expected 15 of 300, with a standard deviation of 3.8.
    assert!((3..30).contains(&greys(calm, 300)));
    let mut factors = Vec::new();
    for (_, planes) in read(grey(0.), 150) {
        let colours = colours(&planes);
        for [red, green, blue] in [colours[0], colours[2]] {
            // The background, (20, 40, 200): brightened, and white at most; every channel by the same factor.
            let factor = red * 255. / 20.;
            assert!((green * 255. / 40. - factor).abs() < 1e-3);
            assert!((blue * 255. - (200. * factor).min(255.)).abs() < 1e-2);
            factors.push(factor);
        }
    }
    assert!(factors.iter().all(|factor| (0.799..1.201).contains(factor)));
    assert!(factors.iter().any(|&factor| factor < 0.82) && factors.iter().any(|&factor| factor > 1.18));
    assert!(factors.chunks_exact(2).any(|pair| (pair[0] - pair[1]).abs() > 0.1), "each crop its own");
}

#[test]
fn jitter_is_distributed_as_said() {
    let target = [10., 20., 8., 18.];
    let (mut logs, mut offsets) = (Vec::new(), Vec::new());
    for i in 0..4000 {
        let [x, y, width, height] = PairRecipe::ATOM.jitter(target, &mut Key::new(1).index(i).rng());
        logs.extend([(width / 8.).ln(), (height / 18.).ln()]);
        let reach = (width * height).sqrt();
        offsets.extend([(x + width / 2. - 14.) / reach, (y + height / 2. - 29.) / reach]);
    }
    let moments = |numbers: &[f64]| {
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        (mean, (numbers.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / numbers.len() as f64).sqrt())
    };
    let ((log_mean, log_deviation), (mean, deviation)) = (moments(&logs), moments(&offsets));
    // 8000 numbers: standard errors of 0.0056 and 0.0040 for the first, 0.0145 and 0.0065 for the second.
    assert!(log_mean.abs() < 0.03 && (log_deviation - 0.5).abs() < 0.02, "{log_mean} {log_deviation}");
    assert!(mean.abs() < 0.07 && (deviation - 4.5 / 12f64.sqrt()).abs() < 0.04, "{mean} {deviation}");
    assert!(offsets.iter().all(|offset| offset.abs() <= 2.25));
}

#[test]
fn unreadable_frames_are_defects() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (video(dir.path(), "good", 25), video(dir.path(), "bad", 20));
    (0..10).for_each(|i| std::fs::remove_file(bad.frames.path(i).unwrap()).unwrap());
    (10..20).for_each(|i| std::fs::write(bad.frames.path(i).unwrap(), "no image").unwrap());
    let sampler = sampler(vec![good, bad], 30);
    let run = |workers, max_bad_fraction| {
        let config = LoaderConfig {
            tolerance: Tolerance { max_bad_fraction, report: None },
            ..config(SMALL, 6, workers)
        };
        let loader = Loader::new(Arc::clone(&sampler), config, Key::new(2)).unwrap();
        let outcome: Result<Vec<_>, Error> = loader.epoch(0).unwrap().collect();
        (outcome, loader.quarantine().defects)
    };
    let (outcome, defects) = run(2, 1.);
    let samples: Vec<_> = outcome.unwrap().into_iter().flat_map(|batch| batch.samples).collect();
    assert!(!defects.is_empty() && samples.iter().all(|sample| sample.pair.sequence == 0));
    assert_eq!(samples.len() + defects.len(), 30);
    let known = [DefectCode::MissingFile, DefectCode::UnreadableImage];
    assert!(defects.iter().all(|d| known.contains(&d.code) && d.sample.ends_with("of sequence bad")));
    let (outcome, _) = run(0, 1e-3);
    assert!(matches!(outcome, Err(Error::TooManyDefects { total: 30, .. })));
}

#[test]
fn senseless_settings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sampler = sampler(vec![video(dir.path(), "a", 1)], 2);
    let refused = |recipe| Loader::new(Arc::clone(&sampler), config(recipe, 2, 0), Key::new(0)).is_err();
    assert!(!refused(SMALL));
    assert!(refused(PairRecipe { scale_jitter: -1., ..SMALL }));
    assert!(refused(PairRecipe { centre_jitter: f64::NAN, ..SMALL }));
    assert!(refused(PairRecipe { grey_probability: 1.5, ..SMALL }));
    assert!(refused(PairRecipe { brightness: -0.1, ..SMALL }));
    assert!(refused(PairRecipe { area: SearchArea { factor: 5., size: 0 }, ..SMALL }));
}

#[test]
fn views_are_of_one_sequence_and_each_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let sampler = sampler(vec![video(dir.path(), "a", 25), video(dir.path(), "b", 25)], 60);
    let read = |views| {
        let loader = config(PairRecipe { views, ..SMALL }, 6, 0);
        samples(&Loader::new(Arc::clone(&sampler), loader, Key::new(4)).unwrap(), 0)
    };
    let (single, threefold) = (read(1), read(3));
    for (place, views) in threefold.chunks_exact(3).enumerate() {
        // The first view is the pair that there is without others.
        assert!(views[0] == single[3 * place]);
        assert!(views.iter().all(|view| view.0.pair.sequence == views[0].0.pair.sequence));
        assert!(views[0].0.test_box != views[1].0.test_box && views[1].0.test_box != views[2].0.test_box);
    }
    let distinct = |views: &&[(PairSample, Planes)]| views[0].0.pair != views[1].0.pair;
    assert!(threefold.chunks_exact(3).filter(distinct).count() > 15);
}

#[test]
fn the_crops_of_a_still_differ_and_the_boxes_stay_on_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let sampler = sampler(vec![video(dir.path(), "a", 1), video(dir.path(), "b", 1)], 80);
    // No background is redder than blue, and no tint makes it so.
    let variation = Variation { blur: 0.5, ..Variation::STILLS };
    let recipe = PairRecipe {
        grey_probability: 0.,
        scale_jitter: 0.2,
        centre_jitter: 2.,
        variation: Some(Variation { paste_probability: 0., ..variation }),
        ..SMALL
    };
    let read =
        |recipe| samples(&Loader::new(Arc::clone(&sampler), config(recipe, 8, 0), Key::new(3)).unwrap(), 0);
    for (PairSample { reference_box, test_box, .. }, planes) in read(recipe) {
        assert_ne!(reference_box, test_box);
        for (row, place) in [(0, reference_box), (SIZE, test_box)] {
            let [x, y, width, height] = place.map(f64::from);
            let (centre, count) = centre_of_red(&planes, row);
            assert!((centre[0] - 0.5 - x - width / 2.).abs() < 1.6, "{centre:?} {place:?}");
            assert!((centre[1] - 0.5 - y - height / 2.).abs() < 1.6, "{centre:?} {place:?}");
            assert!((count / (width * height) - 1.).abs() < 0.5, "{count} {place:?}");
        }
    }
    // What is pasted stays where it was; only what is behind it changes.
    let pasted =
        read(PairRecipe { variation: Some(Variation { paste_probability: 1., ..variation }), ..recipe });
    let same = |((a, first), (b, second)): &(_, _)| {
        let (a, b): (&PairSample, &PairSample) = (a, b);
        assert_eq!((a.reference_box, a.test_box), (b.reference_box, b.test_box));
        first == second
    };
    // Plain blue looks the same wherever it is from; more often the other target is in sight too.
    assert!(read(recipe).into_iter().zip(pasted).filter(same).count() < 40);
    let wrong = PairRecipe { views: 0, ..SMALL };
    assert!(Loader::new(sampler, config(wrong, 8, 0), Key::new(3)).is_err());
}
