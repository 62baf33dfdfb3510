//! Generated videos: what is on disk, what it depends on, and what the boxes promise.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ebm_base::Key;
use ebm_data::Error;
use ebm_data::decode::read_image;
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_data::sequences::pairs::{PairRecipe, PairSample};
use ebm_data::sequences::sampler::{PairSampler, PairSampling, Source};
use ebm_data::sequences::{Sequence, read_boxes};
use ebm_synth::videos::{Video, VideoConfig, generate};

fn small() -> VideoConfig {
    VideoConfig { width: 80, height: 64, frames: 12, size: 10.0..=20.0, ..VideoConfig::default() }
}

fn on_threads(count: usize, dir: &Path, videos: usize) -> Vec<Sequence> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap();
    pool.install(|| generate(dir, &small(), videos, Key::new(4))).unwrap()
}

#[test]
fn frames_and_videos_differ() {
    let dir = tempfile::tempdir().unwrap();
    let videos = generate(dir.path(), &small(), 2, Key::new(4)).unwrap();
    let [one, two] = [0, 1]
        .map(|v| (0..12).map(|i| fs::read(videos[v].frames.path(i).unwrap()).unwrap()).collect::<Vec<_>>());
    assert!(one.windows(2).all(|pair| pair[0] != pair[1]));
    assert_ne!(one[0], two[0]);
}

#[test]
fn every_frame_decodes_and_has_a_box() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("videos");
    let sequences = on_threads(2, &root, 3);
    for (index, sequence) in sequences.iter().enumerate() {
        assert_eq!(sequence.name, format!("video_{:04}", index + 1));
        let file = root.join(&sequence.name).join("groundtruth_rect.txt");
        let exact = Video::new(&small(), Key::new(4).index(index as u64)).unwrap().boxes();
        assert_eq!((sequence.boxes.len(), exact.len()), (12, 12));
        for (found, exact) in read_boxes(&file).unwrap().iter().zip(&exact) {
            for (found, exact) in found.iter().zip(exact) {
                assert!(found.is_nan() && exact.is_nan() || (found - exact).abs() <= 0.000_501);
            }
        }
        assert!(sequence.is_valid(0));
        for frame in 0..12 {
            let path = sequence.frames.path(frame).unwrap();
            assert!(path.ends_with(format!("img/{:04}.jpg", frame + 1)));
            let image = read_image(&path).unwrap();
            assert_eq!((image.width, image.height), (80, 64));
        }
    }
    // Found again: nothing is written anew.
    let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let first = sequences[0].frames.path(0).unwrap();
    let before = time(&first);
    assert_eq!(format!("{:?}", on_threads(1, &root, 3)), format!("{sequences:?}"));
    assert_eq!(time(&first), before);
    // A frame is missing, or others are asked for.
    let refused = |count| generate(&root, &small(), count, Key::new(4));
    assert!(matches!(refused(2), Err(Error::Argument { name: "dir", .. })));
    fs::remove_file(first).unwrap();
    assert!(matches!(refused(3), Err(Error::Argument { name: "dir", .. })));
}

#[test]
fn boxes_stay_inside_and_move_as_configured() {
    let config = VideoConfig { speed: 1.0..=7.0, ..VideoConfig::default() };
    let (width, height) = (config.width as f64, config.height as f64);
    let (mut fastest, mut change) = (0.0f64, 0.0f64);
    for index in 0..60 {
        let boxes = Video::new(&config, Key::new(8).index(index)).unwrap().boxes();
        assert_eq!(boxes.len(), config.frames);
        for [x, y, w, h] in &boxes {
            assert!(
                *x >= 0. && *y >= 0. && x + w <= width && y + h <= height && *w > 8. && *h > 8.,
                "{index}"
            );
        }
        for pair in boxes.windows(2) {
            let [[x0, y0, w0, h0], [x1, y1, w1, h1]] = [pair[0], pair[1]];
            fastest = fastest.max((x1 - x0 + 0.5 * (w1 - w0)).hypot(y1 - y0 + 0.5 * (h1 - h0)));
            change = change.max((w1 - w0).abs()).max((h1 - h0).abs());
        }
    }
    // The middle of the box moves against the figure's as this grows.
    assert!((4.0..=9.0).contains(&fastest), "{fastest}");
    assert!((0.3..8.0).contains(&change), "{change}");
}

/// Where nothing else moves, two frames differ inside the boxes of the two only.
#[test]
fn frames_show_the_target_where_its_box_is() {
    let config = VideoConfig { distractors: 0, noise: 0.0, ..small() };
    for index in 0..12 {
        let video = Video::new(&config, Key::new(6).index(index)).unwrap();
        let (boxes, first) = (video.boxes(), video.frame(0).unwrap());
        let last = video.frame(11).unwrap();
        let mut changed = [0; 2];
        for (place, (a, b)) in first.pixels.chunks(3).zip(last.pixels.chunks(3)).enumerate() {
            let (x, y) = ((place % 80) as f64, (place / 80) as f64);
            let inside = [boxes[0], boxes[11]]
                .iter()
                .any(|[left, top, w, h]| x + 1. > *left && x < left + w && y + 1. > *top && y < top + h);
            changed[usize::from(inside)] += usize::from(a != b);
        }
        assert_eq!(changed[0], 0, "{index}: outside both boxes nothing moves");
        assert!(changed[1] > 20, "{index}");
    }
}

#[test]
fn what_cannot_be_made_is_refused() {
    let config = VideoConfig::default();
    let refused = |config: VideoConfig| match Video::new(&config, Key::new(0)) {
        Err(Error::Argument { name, .. }) => name,
        other => panic!("{:?}", other.map(|video| video.boxes().len())),
    };
    assert_eq!(refused(VideoConfig { width: 8, ..config.clone() }), "width");
    assert_eq!(refused(VideoConfig { frames: 1, ..config.clone() }), "frames");
    assert_eq!(refused(VideoConfig { size: 20.0..=100.0, ..config.clone() }), "size");
    assert_eq!(refused(VideoConfig { speed: 0.0..=1.0, ..config.clone() }), "speed");
    assert_eq!(refused(VideoConfig { noise: f32::NAN, ..config.clone() }), "noise");
    let video = Video::new(&small(), Key::new(0)).unwrap();
    assert!(matches!(video.frame(12), Err(Error::Argument { name: "frame", .. })));
    let dir = tempfile::tempdir().unwrap();
    let none = generate(&dir.path().join("a"), &config, 0, Key::new(0));
    assert!(matches!(none, Err(Error::Argument { name: "count", .. })));
}

#[test]
fn generated_videos_make_batches() {
    let dir = tempfile::tempdir().unwrap();
    let sequences = generate(dir.path(), &VideoConfig::default(), 2, Key::new(5)).unwrap();
    let sampling = PairSampling { pairs_per_epoch: 8, max_gap: 6 };
    let sampler = PairSampler::new(vec![Source { sequences, weight: 1. }], sampling).unwrap();
    let config = LoaderConfig { workers: 2, ..LoaderConfig::in_order(PairRecipe::ATOM, 4) };
    let loader = Loader::new(Arc::new(sampler), config, Key::new(0)).unwrap();
    let batches: Vec<_> = loader.epoch(0).unwrap().map(Result::unwrap).collect();
    let found: Vec<_> = batches
        .iter()
        .flat_map(|batch| {
            batch.samples.iter().zip(batch.data.chunks_exact(batch.data.len() / batch.samples.len()))
        })
        .collect();
    assert_eq!(found.len(), 8);
    for (PairSample { reference_box: [x, y, width, height], test_box, .. }, planes) in found {
        assert!((x + width / 2. - 143.5).abs() < 1e-3 && (y + height / 2. - 143.5).abs() < 1e-3);
        // The target's centre always stays in the test crop.
        let centre = [0, 1].map(|side| test_box[side] + test_box[side + 2] / 2.);
        assert!(centre.iter().all(|place| (0. ..288.).contains(place)), "{test_box:?}");
        assert!(planes.iter().all(|number| (-2.2..2.7).contains(number)));
    }
}
