//! The loader of faces: the same batches whatever the threads, targets that stay what they are, defects left
//! out.

use std::path::Path;
use std::sync::Arc;

use crate::common::{digest, golden, picture};
use ebm_base::Key;
use ebm_data::decode::read_image;
use ebm_data::encode::{write_jpeg, write_png};
use ebm_data::faces::loader::{
    Augmentation, FaceBatch, FaceLoader, FaceLoaderConfig, FaceSample, FaceTransform,
};
use ebm_data::faces::utkface::load_directory;
use ebm_data::faces::{Face, Faces, Pixels, Tolerance};
use ebm_data::quarantine::DefectCode;
use ebm_data::transform::Normalise;
use ebm_data::{Error, Image};

/// A size that is no multiple of 32.
const SIZE: usize = 27;

const ANY: Tolerance = Tolerance { max_bad_fraction: 1., report: None };

fn transform(augmentation: Option<Augmentation>) -> FaceTransform {
    FaceTransform { size: SIZE, normalise: Normalise::IMAGENET, augmentation }
}

fn training(workers: usize) -> FaceLoaderConfig {
    let transform = transform(Some(Augmentation::published(vec![-1., 1., -1.])));
    FaceLoaderConfig { workers, tolerance: ANY, ..FaceLoaderConfig::shuffled(transform, 4) }
}

fn face(index: usize, pixels: Pixels) -> Face {
    let number = index as f32;
    Face { name: index.to_string(), pixels, target: vec![number + 0.5, -2. * number - 1., 40. - number] }
}

/// `count` faces whose pixels differ: in files, parts of files and memory in turn.
fn faces(dir: &Path, count: usize) -> Arc<Faces> {
    let make = |index: usize| {
        let side = if index.is_multiple_of(2) { SIZE } else { SIZE + index };
        let (image, path) = (picture(side + index, side), dir.join(format!("{index}.png")));
        write_png(&path, &image).unwrap();
        let pixels = match index % 3 {
            0 => Pixels::File(path),
            1 => Pixels::Region { path, region: [2, -3, SIZE as i64 + 2, SIZE as i64 - 3] },
            _ => Pixels::Memory(Arc::new(image)),
        };
        face(index, pixels)
    };
    Arc::new(Faces { faces: (0..count).map(make).collect(), ..Faces::default() })
}

fn batches(loader: &FaceLoader, epoch: u64) -> Vec<FaceBatch> {
    loader.epoch(epoch).unwrap().map(|batch| batch.unwrap()).collect()
}

#[test]
fn threads_do_not_change_the_batches() {
    let dir = tempfile::tempdir().unwrap();
    let faces = faces(dir.path(), 22);
    let run = |workers, prefetch, key, start| {
        let config = FaceLoaderConfig { prefetch, ..training(workers) };
        let loader = FaceLoader::new(Arc::clone(&faces), config, key).unwrap();
        assert_eq!(loader.steps_per_epoch(), 6);
        digest(loader.batches(start..17).unwrap())
    };
    let reference = run(0, 1, Key::new(5), 0);
    for (workers, prefetch) in [(1, 1), (2, 4), (4, 2), (3, 9)] {
        assert_eq!(run(workers, prefetch, Key::new(5), 0), reference, "{workers} workers, {prefetch} ahead");
    }
    assert_ne!(run(2, 4, Key::new(6), 0), reference);

    // Resumed in the middle of the second epoch: the tail of the same sequence.
    let loader = FaceLoader::new(Arc::clone(&faces), training(2), Key::new(5)).unwrap();
    assert_eq!(run(3, 4, Key::new(5), 8), digest(loader.batches(0..17).unwrap().skip(8)));
}

#[test]
fn batches_hold_what_the_key_draws() {
    let dir = tempfile::tempdir().unwrap();
    let (faces, key) = (faces(dir.path(), 9), Key::new(3));
    let loader = FaceLoader::new(Arc::clone(&faces), training(2), key).unwrap();
    let transform = training(0).recipe;
    for epoch in [0, 2] {
        let mut seen = Vec::new();
        for batch in batches(&loader, epoch) {
            let n = batch.samples.len();
            assert_eq!((batch.shape, batch.epoch), ((n, 3, SIZE, SIZE), epoch));
            assert_eq!(batch.data.len(), n * 3 * SIZE * SIZE);
            for (sample, data) in batch.samples.iter().zip(batch.data.chunks_exact(3 * SIZE * SIZE)) {
                let key = key.split("augment").index(epoch).index(sample.index as u64);
                let place = transform.augmentation.as_ref().unwrap().draw(SIZE, &mut key.rng());
                let image = read_or_crop(&faces.faces[sample.index].pixels);
                assert_eq!(data, transform.apply(&image, Some(place)));
                assert_eq!(sample.flipped, place.flipped);
                seen.push(sample.index);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..9).collect::<Vec<_>>());
    }
}

/// The pixels as the documentation of [`Pixels`] says, one at a time.
fn read_or_crop(pixels: &Pixels) -> Image {
    match pixels {
        Pixels::File(path) => read_image(path).unwrap(),
        Pixels::Memory(image) => Image::clone(image),
        Pixels::Region { path, region: [x0, y0, x1, y1] } => {
            let image = read_image(path).unwrap();
            let mut part = Vec::new();
            for (y, x) in (*y0..*y1).flat_map(|y| (*x0..*x1).map(move |x| (y, x))) {
                let inside = (0..image.height as i64).contains(&y) && (0..image.width as i64).contains(&x);
                let start = if inside { 3 * (y * image.width as i64 + x) as usize } else { 0 };
                part.extend(if inside { &image.pixels[start..start + 3] } else { &[0; 3] });
            }
            Image::new((x1 - x0) as usize, (y1 - y0) as usize, part).unwrap()
        }
    }
}

/// Follow-up code of the paper's authors negated the angles of the dataset itself at each mirroring.
#[test]
fn targets_never_change() {
    let dir = tempfile::tempdir().unwrap();
    let faces = faces(dir.path(), 8);
    let before = Faces::clone(&faces);
    for workers in [0, 2] {
        let loader = FaceLoader::new(Arc::clone(&faces), training(workers), Key::new(1)).unwrap();
        let mut flips = [[0; 2]; 8];
        for epoch in 0..12 {
            for FaceSample { index, target, flipped } in
                batches(&loader, epoch).into_iter().flat_map(|b| b.samples)
            {
                let [yaw, pitch, roll] = [0, 1, 2].map(|d| before.faces[index].target[d]);
                assert_eq!(target, if flipped { [-yaw, pitch, -roll] } else { [yaw, pitch, roll] });
                flips[index][usize::from(flipped)] += 1;
            }
        }
        // Each face came as it is and mirrored, at least once of 12 times.
        assert!(flips.iter().all(|&[no, yes]| no > 0 && yes > 0 && no + yes == 12), "{flips:?}");
    }
    assert_eq!(*faces, before);
}

#[test]
fn evaluation_is_in_order_and_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let faces = faces(dir.path(), 7);
    let config = FaceLoaderConfig::in_order(transform(None), 3);
    let loader = FaceLoader::new(Arc::clone(&faces), config, Key::new(0)).unwrap();
    let batches = batches(&loader, 0);
    assert_eq!(batches.iter().map(|batch| batch.shape.0).collect::<Vec<_>>(), [3, 3, 1]);
    let samples: Vec<_> = batches.iter().flat_map(|batch| &batch.samples).collect();
    assert_eq!(samples.iter().map(|sample| sample.index).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
    let data: Vec<f32> = batches.iter().flat_map(|batch| batch.data.to_vec()).collect();
    for (sample, data) in samples.into_iter().zip(data.chunks_exact(3 * SIZE * SIZE)) {
        let Face { pixels, target, .. } = &faces.faces[sample.index];
        assert_eq!((&sample.target, sample.flipped), (target, false));
        assert_eq!(data, transform(None).apply(&read_or_crop(pixels), None));
    }
}

/// Face 0 to 2 are good, if unusual; of the others each has another defect.
fn unusual(dir: &Path) -> (Faces, Vec<(usize, DefectCode)>) {
    let image = |name: &str| golden("images").join(name);
    let truncated = |name: &str| {
        let (path, bytes) = (dir.join(name), std::fs::read(image(name)).unwrap());
        std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
        Pixels::File(path)
    };
    let region = |region| Pixels::Region { path: image("rgb.png"), region };
    let short = Image { width: 4, height: 4, pixels: vec![0; 47] };
    let pixels = [
        Pixels::File(image("grey.jpg")),
        Pixels::File(image("cmyk.jpg")),
        region([30, 20, 60, 50]),
        truncated("rgb_420.jpg"),
        truncated("progressive.jpg"),
        truncated("grey.png"),
        Pixels::File(dir.join("none.jpg")),
        region([3, 3, 3, 9]),
        region([41, 0, 50, 9]),
        region([0, 0, 1 << 40, 9]),
        Pixels::Memory(Arc::new(short)),
        Pixels::Memory(Arc::new(Image { width: 0, height: 4, pixels: Vec::new() })),
    ];
    use DefectCode::{BadBox, MissingFile, UnreadableImage};
    let codes = [UnreadableImage, UnreadableImage, UnreadableImage, MissingFile, BadBox, BadBox]
        .into_iter()
        .chain([UnreadableImage; 3]);
    let faces = pixels.into_iter().enumerate().map(|(index, pixels)| face(index, pixels)).collect();
    (Faces { faces, ..Faces::default() }, (3..).zip(codes).collect())
}

#[test]
fn defective_faces_are_left_out_and_listed_once() {
    let dir = tempfile::tempdir().unwrap();
    let (faces, expected) = unusual(dir.path());
    let (faces, report) = (Arc::new(faces), dir.path().join("defects.jsonl"));
    for workers in [0, 3] {
        let config = FaceLoaderConfig {
            tolerance: Tolerance { report: Some(report.clone()), ..ANY },
            ..training(workers)
        };
        let loader = FaceLoader::new(Arc::clone(&faces), config, Key::new(9)).unwrap();
        let mut seen: Vec<usize> = (0..3)
            .flat_map(|epoch| batches(&loader, epoch))
            .inspect(|batch| assert_eq!(batch.data.len(), batch.samples.len() * 3 * SIZE * SIZE))
            .flat_map(|batch| batch.samples)
            .map(|sample| sample.index)
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        let defects = loader.quarantine().defects;
        let number = |name: &str| name.strip_prefix("face ").unwrap().parse::<usize>().unwrap();
        let mut found: Vec<_> = defects.iter().map(|defect| (number(&defect.sample), defect.code)).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(std::fs::read_to_string(&report).unwrap().lines().count(), 9);
    }
}

#[test]
fn grey_and_cmyk_become_rgb() {
    let (faces, _) = unusual(tempfile::tempdir().unwrap().path());
    let faces = Arc::new(Faces { faces: faces.faces[..2].to_vec(), ..Faces::default() });
    let loader = FaceLoader::new(faces, FaceLoaderConfig::in_order(transform(None), 2), Key::new(0)).unwrap();
    let batch = batches(&loader, 0).remove(0);
    let (grey, cmyk) = batch.data.split_at(3 * SIZE * SIZE);
    // Normalisation undone, the three planes of a grey image are the same and those of a coloured one are
    // not.
    let sample = |data: &[f32], channel: usize, place: usize| {
        let Normalise { mean, std, .. } = Normalise::IMAGENET;
        data[channel * SIZE * SIZE + place] * std[channel] + mean[channel]
    };
    let spread = |data: &[f32]| {
        let spread = |place| (sample(data, 0, place) - sample(data, 2, place)).abs();
        (0..SIZE * SIZE).map(spread).fold(0., f32::max)
    };
    assert!(spread(grey) < 1e-6 && spread(cmyk) > 0.2, "{} {}", spread(grey), spread(cmyk));
}

#[test]
fn too_many_defective_faces_end_the_iteration() {
    let dir = tempfile::tempdir().unwrap();
    let faces = Arc::new(unusual(dir.path()).0);
    for workers in [0, 2] {
        let config = FaceLoaderConfig {
            workers,
            tolerance: Tolerance { max_bad_fraction: 0.2, report: None },
            ..FaceLoaderConfig::in_order(transform(None), 1)
        };
        let loader = FaceLoader::new(Arc::clone(&faces), config, Key::new(9)).unwrap();
        let outcomes: Vec<_> = loader.epoch(0).unwrap().collect();
        assert_eq!(outcomes.len(), 4);
        let error = outcomes[3].as_ref().unwrap_err();
        assert!(matches!(error, Error::TooManyDefects { bad: 3, total: 12, .. }), "{error}");
    }
}

#[test]
fn targets_are_checked_before_the_first_batch() {
    let dir = tempfile::tempdir().unwrap();
    let good = faces(dir.path(), 3);
    let said = |change: fn(&mut Faces), config: FaceLoaderConfig| {
        let mut faces = Faces::clone(&good);
        change(&mut faces);
        FaceLoader::new(Arc::new(faces), config, Key::new(0)).err().map_or(String::new(), |e| e.to_string())
    };
    let eval = || FaceLoaderConfig::in_order(transform(None), 2);
    assert_eq!(said(|_| (), training(0)), "");
    assert_eq!(said(|_| (), eval()), "");
    let short = |faces: &mut Faces| faces.faces[2].target.truncate(2);
    assert!(said(short, training(0)).contains("target: face 2 has 2 numbers, flip_signs 3"));
    assert!(said(short, eval()).contains("target: face 2 has 2 numbers, the first face 3"));
    assert!(said(|faces| faces.faces[1].target[0] = f32::NAN, eval()).contains("face 1"));
    assert!(said(|faces| faces.faces.clear(), eval()).contains("no batch"));
    let mut bad = eval();
    bad.recipe.size = 0;
    assert!(said(|_| (), bad).starts_with("size"));
}

#[test]
fn files_with_ages_in_their_names_load() {
    let dir = tempfile::tempdir().unwrap();
    for age in 21..61 {
        let image = picture(200, 200 - (age - 21));
        write_jpeg(&dir.path().join(format!("{age}_0_1_20170117163203851.jpg.chip.jpg")), &image, 90)
            .unwrap();
    }
    let faces = load_directory(dir.path(), &Tolerance::default()).unwrap();
    let count = faces.faces.len();
    assert_eq!(count, 40);
    let faces = Arc::new(faces);
    let augmentation = Some(Augmentation::published(vec![1.]));
    let transform = FaceTransform { size: 200, normalise: Normalise::IMAGENET, augmentation };
    let eval = FaceTransform { augmentation: None, ..transform.clone() };
    for config in [FaceLoaderConfig::shuffled(transform, 32), FaceLoaderConfig::in_order(eval, 32)] {
        let loader = FaceLoader::new(Arc::clone(&faces), config, Key::new(1)).unwrap();
        let mut seen = 0;
        for batch in batches(&loader, 0) {
            seen += batch.samples.len();
            assert!(batch.samples.iter().all(|s| s.target == faces.faces[s.index].target));
            assert!(batch.data.iter().all(|number| (-2.2..2.7).contains(number)));
        }
        assert_eq!(seen, count);
        assert!(loader.quarantine().defects.is_empty());
    }
}
