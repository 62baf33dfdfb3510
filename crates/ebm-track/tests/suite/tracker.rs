//! The state machine on drawn videos, with networks whose weights are drawn; refinement with an f that is
//! known.

use std::sync::{Arc, Mutex};

use candle_core::{D, DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::{EnergyModel, GaussianMixture, TargetSpace};
use ebm_data::Image;
use ebm_data::sequences::{Frames, Rect, Sequence, read_boxes};
use ebm_eval::tracking::Convention;
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_track::box_module::{
    BoxModule, BoxModuleConfig, BoxNetwork, Modulation, TargetFeatures, TestFeatures,
};
use ebm_track::localize::State;
use ebm_track::saved::DensityConfig;
use ebm_track::tracker::{BoxConfig, Networks, TargetTracker, TrackerConfig, refine_box};
use ebm_track::{
    Backbone, BackboneFeatures, Error, Refinement, Runs, StepCoordinates, run_folder, track_dataset,
    track_sequence,
};
use rand::Rng;

/// Drawn networks; without steps of the ascent boxes stay as they are.
fn networks(steps: usize) -> Arc<Networks<BoxModule>> {
    let device = Device::Cpu;
    let store = ParamStore::new(Key::new(1));
    let config =
        ResNetConfig { width: 8, layers: [1, 1, 1, 0], ..ResNetConfig::resnet18(Norm::Frozen { eps: 1e-5 }) };
    ResNet::new(&config, store.var_builder(DType::F32, &device)).unwrap();
    let backbone = Backbone::of_store(&store, "", &device).unwrap();
    let store = ParamStore::new(Key::new(2));
    let sizes = BoxModuleConfig::atom(backbone.channels()).narrowed(32);
    store.freeze(|_| true);
    let boxes = BoxModule::new(&sizes, store.var_builder(DType::F32, &device)).unwrap();
    let refinement = Refinement { coordinates: StepCoordinates::Relative, steps, step_length: [2e-4, 1e-3] };
    let proposal = GaussianMixture::isotropic(&[0.05, 0.5], 4).unwrap();
    let density = Some(DensityConfig { proposal, temperature: 1.0, factors: None });
    Arc::new(Networks { backbone: Arc::new(backbone), boxes, refinement, density, device })
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
    let mut tracker =
        TargetTracker::start(&networks, &config(), &frame(x, y), bbox(x, y), Key::new(3)).unwrap();
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
        TargetTracker::start(&networks, &config(), &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(3))
            .unwrap();
    let empty = Image::filled(160, 120, [110; 3]).unwrap();
    let before = tracker.bbox();
    let tracked = tracker.track(&empty).unwrap();
    assert_eq!((tracked.state, tracked.f, tracked.bbox), (State::NotFound, None, before));
    assert!(tracker.density(8).unwrap().is_none());
    // It comes back near where it was.
    assert_ne!(tracker.track(&frame(84.0, 58.0)).unwrap().state, State::NotFound);
    let density = tracker.density(64).unwrap().unwrap();
    assert_eq!(tracker.density(64).unwrap().unwrap(), density);
    let corner = density.corner(8).unwrap();
    assert!(corner.p.len() == 64 && (corner.p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_tracker_repeats_itself() {
    let networks = networks(3);
    let run = |key: u64| {
        let config = TrackerConfig::default();
        let mut tracker =
            TargetTracker::start(&networks, &config, &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(key))
                .unwrap();
        (1..4).map(|i| tracker.track(&frame(80.0 + i as f64, 60.0)).unwrap().bbox).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn what_can_not_be_tracked_is_refused() {
    let networks = networks(0);
    let start =
        |bbox| TargetTracker::start(&networks, &config(), &frame(80.0, 60.0), bbox, Key::new(3)).map(|_| ());
    assert!(matches!(start([0.0, 0.0, 0.0, 5.0]), Err(Error::Input { .. })));
    assert!(matches!(start([500.0, 0.0, 5.0, 5.0]), Err(Error::Input { .. })));
    let mut tracker =
        TargetTracker::start(&networks, &config(), &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(3))
            .unwrap();
    let other = Image::filled(100, 120, [0; 3]).unwrap();
    assert!(
        matches!(tracker.track(&other), Err(Error::Input { place, .. }) if place.starts_with("frame 1 "))
    );
    let bad = TrackerConfig { crop: 100, ..config() };
    let refused = TargetTracker::start(&networks, &bad, &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(3));
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
    assert!(error.to_string().starts_with(&format!("sequence bad, frame 3 ({})", cut.display())), "{error}");

    let (sequences, results) = ([bad, good], dir.path().join("results"));
    let runs = Runs { repetitions: 1, workers: 1 };
    let all = track_dataset(&networks, &config(), &sequences, &results, runs, Key::new(1), &mut ()).unwrap();
    let report = all[0].report(&sequences, &Convention::pytracking()).unwrap();
    assert_eq!((report.sequences, report.failed.len(), all[0].tracked.len()), (1, 1, 1));
    assert!(report.failed[0].reason.contains("frame 3"));
    assert!(report.figures.auc > 60.0, "{}", report.figures.auc);
    assert_eq!(all[0].cost().0, 4);
    let folder = run_folder(&results, 1);
    assert_eq!(read_boxes(&folder.join("good.txt")).unwrap(), all[0].tracked[0].boxes);
    assert!(!folder.join("bad.txt").exists());
}

#[test]
fn a_dataset_is_tracked_the_same_by_any_number_of_workers_and_after_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let sequences = ["one", "two", "three"].map(|name| write_sequence(dir.path(), name, 4));
    let networks = networks(2);
    let track = |folder: &str, workers: usize| {
        let (config, runs) = (TrackerConfig::default(), Runs { repetitions: 2, workers });
        let results = dir.path().join(folder);
        track_dataset(&networks, &config, &sequences, &results, runs, Key::new(1), &mut ()).unwrap()
    };
    let boxes = |all: &[ebm_track::Repetition]| -> Vec<Vec<Rect>> {
        all.iter().flat_map(|one| one.tracked.iter().map(|found| found.boxes.clone())).collect()
    };
    let (alone, together) = (track("alone", 1), track("together", 3));
    assert_eq!((boxes(&alone).len(), boxes(&alone)), (6, boxes(&together)));
    // A tracker draws numbers, other ones in each run.
    assert_ne!(alone[0].tracked[1].boxes, alone[1].tracked[1].boxes);
    // A sequence that is missing and one that was cut off are tracked again, the others are not.
    let folder = run_folder(&dir.path().join("alone"), 2);
    std::fs::remove_file(folder.join("one.txt")).unwrap();
    std::fs::write(folder.join("two.txt"), "1,2,3,4\n").unwrap();
    let again = track("alone", 2);
    assert_eq!(boxes(&again), boxes(&together));
    let tracked: Vec<bool> =
        again.iter().flat_map(|one| &one.tracked).map(|s| !s.frames.is_empty()).collect();
    assert_eq!(tracked, [false, false, false, true, true, false]);
}

/// f = −Σ (log side − log aim)ᵖ over its two sides in the crop, wherever it is; the boxes of
/// the first evaluation are kept.
struct SizeBowl {
    inner: BoxModule,
    aim: [f64; 2],
    power: i32,
    first: Mutex<Vec<f32>>,
}

impl SizeBowl {
    /// f and its derivative in log side.
    fn side(&self, axis: usize, log_side: f64) -> (f64, f64) {
        let u = log_side - self.aim[axis].ln();
        (-u.powi(self.power), -f64::from(self.power) * u.powi(self.power - 1))
    }
}

impl EnergyModel for SizeBowl {
    type Features = TargetFeatures;

    fn score(&self, features: &TargetFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        Ok(self.score_and_grad(features, y)?.0)
    }

    fn score_and_grad(&self, _: &TargetFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        let rows = y.flatten_all()?.to_vec1::<f32>()?;
        let mut first = self.first.lock().unwrap();
        if first.is_empty() {
            first.clone_from(&rows);
        }
        let (mut f, mut gradient) = (Vec::new(), Vec::new());
        for row in rows.chunks_exact(4) {
            let sides = [0, 1].map(|axis| self.side(axis, f64::from(row[axis + 2])));
            f.push((sides[0].0 + sides[1].0) as f32);
            gradient.extend([0.0, 0.0, sides[0].1 as f32, sides[1].1 as f32]);
        }
        let (b, m, _) = y.dims3()?;
        Ok((Tensor::from_vec(f, (b, m), &Device::Cpu)?, Tensor::from_vec(gradient, (b, m, 4), &Device::Cpu)?))
    }
}

impl BoxNetwork for SizeBowl {
    fn modulation(&self, reference: &BackboneFeatures, boxes: &Tensor) -> ebm_track::Result<Modulation> {
        self.inner.modulation(reference, boxes)
    }

    fn test_features(&self, test: &BackboneFeatures, m: &Modulation) -> ebm_track::Result<TestFeatures> {
        self.inner.test_features(test, m)
    }

    fn corner_scores(&self, features: &TestFeatures, corners: &Tensor) -> ebm_track::Result<Tensor> {
        Ok(self.corner_gradients(features, corners)?.0)
    }

    /// f = −Σ (side − aim)² here, for steps in pixels.
    fn corner_gradients(&self, _: &TestFeatures, corners: &Tensor) -> ebm_track::Result<(Tensor, Tensor)> {
        let aim = Tensor::new(&self.aim.map(|side| side as f32), &Device::Cpu)?;
        let size = (corners.narrow(D::Minus1, 2, 2)? - corners.narrow(D::Minus1, 0, 2)?)?;
        let off = size.broadcast_sub(&aim)?;
        let high = (&off * -2.0)?;
        Ok((off.sqr()?.sum(D::Minus1)?.neg()?, Tensor::cat(&[&high.neg()?, &high], D::Minus1)?))
    }
}

/// Edges that are independent and normal about `mean`, in pixels of the crop.
struct NormalEdges {
    inner: BoxModule,
    mean: [f32; 4],
    sigma: f64,
}

impl EnergyModel for NormalEdges {
    type Features = TargetFeatures;

    fn score(&self, features: &TargetFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        let corners = features.space.decode(y)?;
        self.corner_scores(&features.test, &corners).map_err(ebm_core::Error::model)
    }
}

impl BoxNetwork for NormalEdges {
    fn modulation(&self, reference: &BackboneFeatures, boxes: &Tensor) -> ebm_track::Result<Modulation> {
        self.inner.modulation(reference, boxes)
    }

    fn test_features(&self, test: &BackboneFeatures, m: &Modulation) -> ebm_track::Result<TestFeatures> {
        self.inner.test_features(test, m)
    }

    fn corner_scores(&self, _: &TestFeatures, corners: &Tensor) -> ebm_track::Result<Tensor> {
        let z = (corners.broadcast_sub(&Tensor::new(&self.mean, &Device::Cpu)?)? / self.sigma)?;
        Ok((z.sqr()?.sum(D::Minus1)? * -0.5)?)
    }

    fn corner_gradients(&self, f: &TestFeatures, corners: &Tensor) -> ebm_track::Result<(Tensor, Tensor)> {
        Ok((self.corner_scores(f, corners)?, corners.zeros_like()?))
    }
}

/// Of a density with independent edges the intervals are known, but for the Jacobian 1 / (w h) between edges and
/// y, which makes sides shorter by σ²(w) / w = 2 · 4² / 61 = 0.5 pixels.
#[test]
fn intervals_of_edges_are_those_of_the_density() {
    let Networks { backbone, boxes, density, device, refinement } = Arc::into_inner(networks(0)).unwrap();
    let (mean, sigma) = ([115.0, 118.0, 176.0, 169.0], 4.0);
    let boxes = NormalEdges { inner: boxes, mean, sigma };
    let networks = Arc::new(Networks { backbone, boxes, density, device, refinement });
    let mut tracker =
        TargetTracker::start(&networks, &config(), &frame(80.0, 60.0), bbox(80.0, 60.0), Key::new(3))
            .unwrap();
    tracker.track(&frame(81.0, 60.0)).unwrap();
    let density = tracker.density(4000).unwrap().unwrap();
    assert!(density.effective_sample_size() > 500.0, "{}", density.effective_sample_size());
    let regions = density.edge_regions(0.9).unwrap();
    let scale = (5.0 * (SIZE[0] * SIZE[1]).sqrt()).round() / 288.0;
    let middle = regions.each_ref().map(|region| 0.5 * (region.intervals[0][0] + region.intervals[0][1]));
    for region in &regions {
        let expected = 2.0 * 1.645 * sigma * scale;
        assert!((region.width() / expected - 1.0).abs() < 0.1, "{} is not {expected}", region.width());
    }
    for (low, high) in [(0, 2), (1, 3)] {
        let (found, expected) = (middle[high] - middle[low], f64::from(mean[high] - mean[low]) * scale);
        assert!((found - expected).abs() < 1.5 * scale, "{found} is not {expected}");
    }
    let [left, top, right, bottom] = middle;
    let overlap = density.expected_overlap([left, top, right - left, bottom - top]);
    // An edge is off by 4 √(2/π) = 3.2 pixels in the mean; four such edges of 61 × 51 pixels.
    assert!((0.75..0.85).contains(&overlap), "{overlap}");
    assert!(density.expected_overlap([left + 500.0, top, 9.0, 9.0]) == 0.0);
}

fn sized(aim: [f64; 2], power: i32, refinement: Refinement) -> Arc<Networks<SizeBowl>> {
    let Networks { backbone, boxes, device, density, .. } = Arc::into_inner(networks(0)).unwrap();
    let boxes = SizeBowl { inner: boxes, aim, power, first: Mutex::default() };
    Arc::new(Networks { backbone, density, boxes, refinement, device })
}

/// The target's sides in the crop, whose area is always (288 / 5)²: the first frame's box at the classifier's
/// place, which no random box is beside, climbs f with the optimum `aim`.
#[test]
fn a_tracker_refines_the_size_towards_the_optimum_of_f() {
    let (aim, (x, y), next) = ([80.0, 44.0], path(0), path(1));
    let sample = (5.0 * (SIZE[0] * SIZE[1]).sqrt()).round();
    let scale = sample / 288.0;
    let start = SIZE.map(|side| side / scale);
    let track = |refinement: Refinement| {
        let networks = sized(aim, 2, refinement);
        let mut tracker =
            TargetTracker::start(&networks, &config(), &frame(x, y), bbox(x, y), Key::new(3)).unwrap();
        tracker.track(&frame(next.0, next.1)).unwrap()
    };
    let center = |[x, y, w, h]: Rect| [x + (w - 1.0) / 2.0, y + (h - 1.0) / 2.0];
    let relative =
        |steps| Refinement { coordinates: StepCoordinates::Relative, steps, step_length: [0.1, 0.1] };
    let unmoved = track(relative(0));
    let refined = track(relative(4));
    // u = log side − log aim is multiplied by 1 − 2 λ = 0.8 in each of the four steps.
    let log = |axis: usize, steps: i32| 0.8f64.powi(steps) * (start[axis] / aim[axis]).ln();
    for axis in [0, 1] {
        let expected = scale * aim[axis] * log(axis, 4).exp();
        assert!((refined.bbox[axis + 2] - expected).abs() < 1e-3, "{:?} {expected}", refined.bbox);
        assert!((refined.bbox[axis + 2] - SIZE[axis]).abs() > 1.0);
        assert!((center(refined.bbox)[axis] - center(unmoved.bbox)[axis]).abs() < 1e-3);
    }
    // f is reported where the last step began.
    let expected = -(0..2).map(|axis| log(axis, 3).powi(2)).sum::<f64>();
    assert!((refined.f.unwrap() - expected).abs() < 1e-4, "{:?} {expected}", refined.f);

    // In pixels: w ← w + λ · ∂f/∂w · w with ∂f/∂w = −2 (w − aim); x does not move, so that the centre does.
    let step = 0.002;
    let pixels = track(Refinement { coordinates: StepCoordinates::Pixels, steps: 3, step_length: [step; 2] });
    for axis in [0, 1] {
        let expected = (0..3).fold(start[axis], |side, _| side - 2.0 * step * (side - aim[axis]) * side);
        assert!((pixels.bbox[axis + 2] - scale * expected).abs() < 1e-2, "{:?} {expected}", pixels.bbox);
        let moved = center(pixels.bbox)[axis] - center(unmoved.bbox)[axis];
        assert!((moved - scale * (expected - start[axis]) / 2.0).abs() < 1e-2, "{moved}");
    }
}

/// f = −u⁴ of each side: a step of λ f′ with λ = 4 takes u to u − 16 u³, so that the given box, with u = 1/4,
/// jumps to the optimum and beats in f those that began nearer to it. ATOM ranks by the f that the last step
/// evaluated, where it began, and so does this.
#[test]
fn boxes_are_ranked_by_f_before_the_last_step() {
    let aim = [60.0, 60.0];
    let refinement = Refinement { coordinates: StepCoordinates::Relative, steps: 1, step_length: [1.0, 4.0] };
    let networks = sized(aim, 4, refinement.clone());
    let crop = Tensor::zeros((1, 3, 288, 288), DType::F32, &Device::Cpu).unwrap();
    let features = networks.backbone.features(&crop).unwrap();
    let side = 60.0 * 0.25f64.exp();
    let start = [100.0, 100.0, side, side];
    let start_row = Tensor::new(&[start.map(|number| number as f32)], &Device::Cpu).unwrap();
    let modulation = networks.boxes.modulation(&features, &start_row).unwrap();
    let test = networks.boxes.test_features(&features, &modulation).unwrap();
    let config = BoxConfig { random: 29, ..BoxConfig::default() };
    let mut rng = Key::new(4).rng();
    let (found, f) =
        refine_box(&networks.boxes, test.clone(), start, &refinement, &config, &Device::Cpu, &mut rng)
            .unwrap()
            .unwrap();

    // By hand, from the boxes that it began with.
    let first = networks.boxes.first.lock().unwrap().clone();
    let step = |u: f64| u - 16.0 * u.powi(3);
    let quartic = |u: [f64; 2]| -u[0].powi(4) - u[1].powi(4);
    let space = TargetFeatures::new(test, &start_row).unwrap().space;
    let mut boxes: Vec<(f64, f64, Rect)> = first
        .chunks_exact(4)
        .map(|row| {
            let u = [0, 1].map(|axis| f64::from(row[axis + 2]) - aim[axis].ln());
            let after = u.map(step);
            let log = [0, 1].map(|axis| (after[axis] + aim[axis].ln()) as f32);
            let y = Tensor::new(&[[[row[0], row[1], log[0], log[1]]]], &Device::Cpu).unwrap();
            let corners = space.decode(&y).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let [x0, y0, x1, y1] = [0, 1, 2, 3].map(|i| f64::from(corners[i]));
            (quartic(u), quartic(after), [x0, y0, x1 - x0, y1 - y0])
        })
        .collect();
    assert_eq!(boxes.len(), 30);
    let mean = |boxes: &[(f64, f64, Rect)]| {
        [0, 1, 2, 3].map(|i| boxes[..3].iter().map(|(.., bbox)| bbox[i]).sum::<f64>() / 3.0)
    };
    boxes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let by_last = mean(&boxes);
    boxes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let expected = mean(&boxes);
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-2, "{found} {expected}");
    }
    assert!((f - boxes[..3].iter().map(|row| row.0).sum::<f64>() / 3.0).abs() < 1e-5, "{f}");
    // The two orders differ here, so that the other one would have been seen.
    assert!(by_last.iter().zip(expected).any(|(a, b)| (a - b).abs() > 0.05), "{by_last:?} {expected:?}");
}
