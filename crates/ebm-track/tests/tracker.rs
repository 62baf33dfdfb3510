//! The state machine on drawn videos, with networks whose weights are drawn.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's failure is its report")]

use std::rc::Rc;

use candle_core::{DType, Device};
use ebm_data::Image;
use ebm_data::sequences::{Frames, Rect, Sequence, read_boxes};
use ebm_eval::tracking::Convention;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_seed::Key;
use ebm_track::box_module::{BoxModule, BoxModuleConfig, PackedBoxModule};
use ebm_track::localize::State;
use ebm_track::tracker::{Networks, Tracker, TrackerConfig};
use ebm_track::{Backbone, Error, Method, Refinement, benchmark, track_sequence};
use rand::Rng;

/// Drawn networks; without steps of the ascent boxes stay as they are.
fn networks(steps: usize) -> Networks<PackedBoxModule> {
    let device = Device::Cpu;
    let store = ParamStore::new(Key::new(1));
    let config =
        ResNetConfig { width: 8, layers: [1, 1, 1, 0], ..ResNetConfig::resnet18(Norm::Frozen { eps: 1e-5 }) };
    ResNet::new(&config, store.var_builder(DType::F32, &device)).unwrap();
    let backbone = Backbone::of_store(&store, "", &device).unwrap();
    let store = ParamStore::new(Key::new(2));
    let sizes = BoxModuleConfig::atom(backbone.channels()).narrowed(32);
    let module = BoxModule::new(&sizes, store.var_builder(DType::F32, &device)).unwrap();
    let refinement = Refinement { steps, ..Method::Ebm.paper().refinement };
    Networks { backbone: Rc::new(backbone), boxes: module.pack().unwrap(), refinement, device }
}

fn config() -> TrackerConfig {
    let mut config = TrackerConfig::default();
    config.boxes.random = 0;
    config.boxes.top = 1;
    config
}

const SIZE: [f64; 2] = [36.0, 28.0];

/// A target of 36 × 28 pixels made of coloured blocks with its centre at (x, y), over noise.
fn frame(x: f64, y: f64) -> Image {
    let mut rng = Key::new(5).rng();
    let mut pixels: Vec<u8> = (0..160 * 120 * 3).map(|_| rng.random_range(90..130)).collect();
    let blocks: Vec<[u8; 3]> = (0..16).map(|_| [0, 0, 0].map(|_: u8| rng.random())).collect();
    let [left, top] = [x - SIZE[0] / 2.0, y - SIZE[1] / 2.0].map(|edge| edge.round() as usize);
    for row in 0..SIZE[1] as usize {
        for column in 0..SIZE[0] as usize {
            let at = 3 * ((top + row) * 160 + left + column);
            pixels[at..at + 3].copy_from_slice(&blocks[row / 7 * 4 + column / 9]);
        }
    }
    Image::new(160, 120, pixels).unwrap()
}

fn bbox(x: f64, y: f64) -> Rect {
    [x - SIZE[0] / 2.0, y - SIZE[1] / 2.0, SIZE[0], SIZE[1]]
}

/// A walk of up to 5 pixels a frame.
fn path(i: usize) -> (f64, f64) {
    let t = i as f64 / 6.0;
    ((80.0 + 30.0 * t.sin()).round(), (60.0 + 20.0 * (1.3 * t).sin()).round())
}

#[test]
fn a_moving_target_is_followed() {
    let networks = networks(0);
    let (x, y) = path(0);
    let mut tracker = Tracker::start(&networks, &config(), &frame(x, y), bbox(x, y), Key::new(3)).unwrap();
    let mut far = 0.0;
    for i in 1..25 {
        let (x, y) = path(i);
        let tracked = tracker.track(&frame(x, y)).unwrap();
        let [left, top, width, height] = tracked.bbox;
        assert_eq!([width, height].map(|side| (side * 1e3).round() / 1e3), SIZE);
        let (dx, dy) = (left + width / 2.0 - x, top + height / 2.0 - y);
        far += dx.hypot(dy);
        assert!(dx.abs() < 12.0 && dy.abs() < 12.0, "frame {i}: {dx} {dy} {:?}", tracked.state);
        assert!(tracked.score > 0.25 && tracked.state != State::NotFound);
    }
    // A cell of the classifier is 9 pixels here.
    assert!(far / 24.0 < 5.0, "{}", far / 24.0);
}

#[test]
fn a_target_that_is_gone_is_not_found_and_the_box_stays() {
    let networks = networks(0);
    let mut tracker =
        Tracker::start(&networks, &config(), &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(3)).unwrap();
    let empty = Image::filled(160, 120, [110; 3]).unwrap();
    let before = tracker.bbox();
    let tracked = tracker.track(&empty).unwrap();
    assert_eq!((tracked.state, tracked.f, tracked.bbox), (State::NotFound, None, before));
    assert!(tracker.corner_density(8).unwrap().is_none());
    // It comes back near where it was.
    assert_ne!(tracker.track(&frame(84.0, 58.0)).unwrap().state, State::NotFound);
    let density = tracker.corner_density(8).unwrap().unwrap();
    assert_eq!(density.p.len(), 64);
    assert!((density.p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_tracker_repeats_itself() {
    let networks = networks(3);
    let run = |key: u64| {
        let config = TrackerConfig::default();
        let mut tracker =
            Tracker::start(&networks, &config, &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(key)).unwrap();
        (1..4).map(|i| tracker.track(&frame(80.0 + i as f64, 60.0)).unwrap().bbox).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn what_can_not_be_tracked_is_refused() {
    let networks = networks(0);
    let start =
        |bbox| Tracker::start(&networks, &config(), &frame(80.0, 60.0), bbox, Key::new(3)).map(|_| ());
    assert!(matches!(start([0.0, 0.0, 0.0, 5.0]), Err(Error::Target { .. })));
    assert!(matches!(start([500.0, 0.0, 5.0, 5.0]), Err(Error::Target { .. })));
    let mut tracker =
        Tracker::start(&networks, &config(), &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(3)).unwrap();
    let other = Image::filled(100, 120, [0; 3]).unwrap();
    assert!(matches!(tracker.track(&other), Err(Error::FrameSize { frame: 1, .. })));
    let bad = TrackerConfig { crop: 100, ..config() };
    let refused = Tracker::start(&networks, &bad, &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(3));
    assert!(refused.err().unwrap().to_string().contains("multiple of 16"));
}

/// A sequence of PNG files in `dir`.
fn write_sequence(dir: &std::path::Path, name: &str, count: usize) -> Sequence {
    let paths = (0..count).map(|i| {
        let path = dir.join(format!("{name}-{i}.png"));
        let (x, y) = self::path(i);
        ebm_data::encode::write_png(&path, &frame(x, y)).unwrap();
        path
    });
    let frames = Frames::Listed(paths.collect());
    let boxes = (0..count).map(|i| bbox(path(i).0, path(i).1)).collect();
    Sequence { name: name.to_owned(), frames, boxes, visible: None }
}

#[test]
fn one_bad_sequence_does_not_stop_a_benchmark() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (write_sequence(dir.path(), "good", 5), write_sequence(dir.path(), "bad", 5));
    let cut = bad.frames.path(3).unwrap();
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let networks = networks(0);

    let error =
        track_sequence(&networks, &config(), &bad, Key::new(1), &mut |_, _, _, _| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Sequence { frame: 3, ref path, .. } if *path == cut), "{error}");

    let sequences = [bad, good];
    let (given, results) = ((&sequences[..], &Convention::pytracking()), dir.path().join("results"));
    let result = benchmark(&networks, &config(), given, &results, Key::new(1), &mut ()).unwrap();
    assert_eq!((result.report.sequences, result.report.failed.len(), result.tracked.len()), (1, 1, 1));
    assert!(result.report.failed[0].reason.contains("frame 3"));
    assert!(result.report.auc > 60.0, "{}", result.report.auc);
    assert_eq!(result.cost().0, 4);
    let written = read_boxes(&results.join("good.txt")).unwrap();
    assert_eq!(written, result.tracked[0].boxes);
    assert!(!results.join("bad.txt").exists());
}
