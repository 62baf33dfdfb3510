//! A refiner of other detectors' boxes: its training, its effect on boxes, and its errors.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_data::Image;
use ebm_detect::config::{RefinerConfig, Settings};
use ebm_detect::training::{BatchSource, RefinerTask};
use ebm_detect::weights::{REFINER, model_metadata};
use ebm_detect::{BoxRefiner, CachedBatch, ImageBatch, LabelledBox, Objects, RefinerNetwork, RefinerOptions};
use ebm_nn::import::{save_safetensors, to_safetensors};
use ebm_nn::params::ParamStore;
use ebm_nn::resnet::{Norm, ResNet, ResNetConfig};
use ebm_train::{Class, GradientTask, TrainTask};
use rand::Rng;

/// A few channels on images of 64 × 64 pixels.
fn config(more: &str) -> RefinerConfig {
    let text = format!(
        "extends = 'refiner'\n\
         input = {{ short_side = 64, long_side = 64 }}\n\
         objective.num_samples = 16\n\
         training = {{ learning_rate = 0.01, warmup_steps = 0, milestones = [], weight_decay = 0.0 }}\n\
         [network]\nwidth = 4\nstrides = [4, 8]\nmap_scales = [1.0, 1.0]\nchannels = 8\nrepresentation = 16\ncanonical_size = 24\n\
         coarsest_level = 1\n\
         views = [{{ level = 0, context = 1.0, bins = 3 }}, {{ level = 1, context = 1.5, bins = 2 }}]\n{more}"
    );
    RefinerConfig::parse("tiny", &text).unwrap()
}

fn bytes(store: &ParamStore) -> Vec<u8> {
    to_safetensors(&store.tensors().unwrap()).unwrap()
}

/// A body with drawn weights, and the classifier that a file of ImageNet's has too.
fn body(dir: &Path) -> PathBuf {
    let store = ParamStore::new(Key::new(1));
    let config = ResNetConfig { width: 4, ..ResNetConfig::resnet18(Norm::Folded) };
    let vb = store.var_builder(DType::F32, &Device::Cpu);
    ResNet::new(&config.up_to(3), vb.clone()).unwrap();
    vb.get((10, 32), "fc.weight").unwrap();
    let path = dir.join("body.safetensors");
    save_safetensors(&path, &store.tensors().unwrap()).unwrap();
    path
}

/// Bright rectangles on black, two images a step.
struct Rectangles;

impl BatchSource for Rectangles {
    fn batch(&mut self, step: usize) -> ebm_detect::Result<CachedBatch> {
        let mut rng = Key::new(5).index(step as u64).rng();
        let (mut pixels, mut objects) = (vec![], vec![]);
        for _ in 0..2 {
            let [x0, y0] = std::array::from_fn(|_| rng.random_range(2..24usize));
            let [x1, y1] = [x0, y0].map(|start| start + rng.random_range(16..36));
            let lit = |i: usize| (x0..x1).contains(&(i % 64)) && (y0..y1).contains(&(i / 64 % 64));
            pixels.extend((0..3 * 64 * 64).map(|i| if lit(i) { 2f32 } else { -1.0 }));
            objects.push(Objects { boxes: vec![[x0, y0, x1, y1].map(|v| v as f32)], classes: vec![1] });
        }
        let pixels = Tensor::from_vec(pixels, (2, 3, 64, 64), &Device::Cpu)?;
        Ok(CachedBatch { maps: vec![], images: ImageBatch { pixels, sizes: vec![(64, 64); 2] }, objects })
    }
}

fn task(config: &RefinerConfig, body: &Path) -> RefinerTask {
    let (network, store) = RefinerNetwork::with_body(config, body, &Device::Cpu, Key::new(2)).unwrap();
    let source = Box::new(Rectangles);
    RefinerTask::new(network, store, source, config, Key::new(3)).unwrap()
}

/// The losses of these steps.
fn train(task: &mut RefinerTask, steps: std::ops::Range<usize>) -> Vec<f64> {
    let step = |step| {
        let (report, update) = task.step(step).unwrap();
        task.apply(step, update).unwrap();
        report.loss
    };
    steps.map(step).collect()
}

#[test]
fn a_training_lowers_the_loss_and_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (config, body) = (config(""), body(dir.path()));
    let mut whole = task(&config, &body);
    let losses = train(&mut whole, 0..60);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let [first, last] = [mean(&losses[..10]), mean(&losses[50..])];
    assert!(last < first - 0.3, "{first} {last}");

    let mut stopped = task(&config, &body);
    train(&mut stopped, 0..20);
    let mut resumed = task(&config, &body);
    resumed.restore(stopped.state().unwrap()).unwrap();
    assert_eq!(train(&mut resumed, 20..60), losses[20..]);
    assert!(bytes(resumed.store()) == bytes(whole.store()));
}

#[test]
fn of_the_body_as_much_is_trained_as_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let body = body(dir.path());
    for (stages, first) in [(0, None), (1, Some("backbone.body.layer2")), (2, Some("backbone.body.layer1"))] {
        let mut config = config("");
        config.trained_stages = stages;
        let mut task = task(&config, &body);
        let trained: Vec<String> = task.store().trainable().into_iter().map(|(name, _)| name).collect();
        let of_body = trained.iter().find(|name| name.starts_with("backbone.body."));
        assert_eq!(of_body.map(|name| &name[..20]), first);
        let before = task.store().tensors().unwrap();
        train(&mut task, 0..1);
        for (name, tensor) in task.store().tensors().unwrap() {
            let moved = (&tensor - &before[&name]).unwrap().abs().unwrap().max_all().unwrap();
            let moved = moved.to_scalar::<f32>().unwrap();
            assert!(trained.contains(&name) || moved == 0.0, "{name}");
            assert!(moved > 0.0 || !name.contains("weight") || !trained.contains(&name), "{name}");
        }
    }
    let mut wide = config("");
    wide.network.width = 5;
    let refused = RefinerNetwork::with_body(&wide, &body, &Device::Cpu, Key::new(2)).err().unwrap();
    assert!(refused.to_string().contains("its shapes are not those of the refiner's network"), "{refused}");
}

#[test]
fn a_training_begins_with_a_body_or_with_a_refiner() {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, body) = (config(""), body(dir.path()));
    let first = task(&config, &body);
    let path = dir.path().join("refiner.safetensors");
    let class = Class { label: 1, id: 18, name: "dog".to_owned() };
    model_metadata(REFINER, "ebm", Some(7), &config, &[class])
        .unwrap()
        .save(&path, &first.store().tensors().unwrap())
        .unwrap();
    let second = RefinerNetwork::with_body(&config, &path, &Device::Cpu, Key::new(99)).unwrap().1;
    assert!(bytes(&second) == bytes(first.store()));
    config.network.representation = 17;
    let refused = RefinerNetwork::with_body(&config, &path, &Device::Cpu, Key::new(2)).err().unwrap();
    assert!(refused.to_string().contains("its shapes are not those of the refiner's network"), "{refused}");
}

/// A refiner whose parameters are all 0 but those that `change` sets.
fn refiner(
    dir: &Path,
    config: &RefinerConfig,
    change: impl Fn(&str, Tensor) -> Tensor,
    clip: bool,
) -> BoxRefiner {
    let store = ParamStore::new(Key::new(0));
    RefinerNetwork::new(&config.network, &store.var_builder(DType::F32, &Device::Cpu)).unwrap();
    let zeros = store.tensors().unwrap().into_iter().map(|(name, tensor)| {
        let value = change(&name, tensor.zeros_like().unwrap());
        (name, value)
    });
    let class = Class { label: 1, id: 18, name: "dog".to_owned() };
    let path = dir.join("refiner.safetensors");
    model_metadata(REFINER, "ebm", Some(7), config, &[class]).unwrap().save(&path, &zeros.collect()).unwrap();
    let options = RefinerOptions { clip, ..RefinerOptions::default() };
    BoxRefiner::open_with(&path, &options).unwrap()
}

fn boxes(boxes: &[[f64; 4]]) -> Vec<LabelledBox> {
    boxes.iter().map(|&bbox| LabelledBox::from(bbox)).collect()
}

/// With a constant f no box moves at any input size; boxes are only clipped.
#[test]
fn where_f_is_flat_boxes_stay() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image::filled(160, 120, [90, 120, 150]).unwrap();
    let given = boxes(&[[10.0, 20.0, 30.0, 40.0], [-5.0, 100.0, 50.0, 40.0], [150.5, 0.25, 3.0, 2.0]]);
    let constant = |name: &str, zeros: Tensor| match name {
        "roi_heads.energy_predictor.bias" => zeros.ones_like().unwrap().affine(1.5, 0.0).unwrap(),
        _ => zeros,
    };
    for clip in [false, true] {
        let refined = refiner(dir.path(), &config(""), constant, clip).refine(&image, &given).unwrap();
        assert_eq!(refined.len(), 3);
        for (given, refined) in given.iter().zip(&refined) {
            assert_eq!((refined.before, refined.f, refined.f_before), (given.bbox, 1.5, 1.5));
            let expected = match given.bbox {
                [-5.0, ..] if clip => [0.0, 100.0, 45.0, 20.0],
                other => other,
            };
            let apart = refined.bbox.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-3, "{:?} for {expected:?}", refined.bbox);
        }
    }
    assert!(refiner(dir.path(), &config(""), constant, true).refine(&image, &[]).unwrap().is_empty());
    let flat = boxes(&[[10.0, 20.0, 0.0, 40.0]]);
    assert!(refiner(dir.path(), &config(""), constant, true).refine(&image, &flat).is_err());
}

/// The maps are 1 on the image, so that f is the share of a box that lies on it: highest inside.
fn inside(name: &str, zeros: Tensor) -> Tensor {
    let ones = || zeros.ones_like().unwrap();
    match name {
        "backbone.fpn.layer_blocks.0.0.bias" | "roi_heads.energy_head.fc6.weight" => ones(),
        "roi_heads.energy_head.fc7.weight" => ones().affine(1.0 / 16.0, 0.0).unwrap(),
        "roi_heads.energy_predictor.weight" => ones().affine(1.0 / (16.0 * 8.0 * 9.0), 0.0).unwrap(),
        _ => zeros,
    }
}

#[test]
fn boxes_climb_a_known_f_to_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config("");
    (config.network.coarsest_level, config.ascent.steps) = (0, 200);
    config.ascent.step_length = vec![1.0];
    config.network.views.truncate(1);
    let refiner = refiner(dir.path(), &config, inside, false);
    let image = Image::filled(128, 128, [1, 2, 3]).unwrap();
    let given = boxes(&[[40.0, 40.0, 30.0, 30.0], [-12.0, 30.0, 40.0, 40.0], [100.0, 90.0, 40.0, 60.0]]);
    let refined = refiner.refine(&image, &given).unwrap();
    assert_eq!(refined[0].bbox.map(f64::round), given[0].bbox);
    for refined in &refined {
        assert!((refined.f - 1.0).abs() < 1e-3, "{refined:?}");
        let [x, y, width, height] = refined.bbox;
        // A map ends half a pixel of it beyond its last centre, or 4 of the image's.
        assert!(x > -4.0 && y > -4.0 && x + width < 128.0 && y + height < 128.0, "{refined:?}");
    }
    assert!(refined[1..].iter().all(|refined| refined.f_before < 0.9));

    // The density's intervals of the edges are clipped too.
    let options = RefinerOptions { step_factor: Some(0.0), ..RefinerOptions::default() };
    let still = BoxRefiner::open_with(dir.path().join("refiner.safetensors"), &options).unwrap();
    let mut rng = Key::new(9).rng();
    let found = still.refine_with_density(&image, &given[1..2], 256, &mut rng).unwrap();
    assert_eq!(found[0].bbox.map(f64::round), [0.0, 30.0, 28.0, 40.0]);
    let edges = found[0].density.as_ref().unwrap().edge_intervals().unwrap();
    assert!(edges.iter().flat_map(|edge| &edge.intervals).flatten().all(|end| (0.0..=128.0).contains(end)));
    assert!(found[0].density.as_ref().unwrap().effective_sample_size() > 1.0);
}

#[test]
fn classes_are_told_apart_where_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image::filled(64, 64, [1, 2, 3]).unwrap();
    let agnostic = refiner(dir.path(), &config(""), |_, zeros| zeros, true);
    assert_eq!((agnostic.label(18), agnostic.label(3)), (Some(0), Some(0)));
    let by_class = |name: &str, zeros: Tensor| match name {
        "roi_heads.energy_predictor.bias" => Tensor::new(&[0f32, 2.0], &Device::Cpu).unwrap(),
        _ => zeros,
    };
    let refiner = refiner(dir.path(), &config("num_classes = 2"), by_class, true);
    assert_eq!((refiner.label(18), refiner.label(3)), (Some(1), None));
    let of = |label| refiner.refine(&image, &[LabelledBox { bbox: [1.0, 2.0, 30.0, 40.0], label }]);
    assert_eq!(of(1).unwrap()[0].f, 2.0);
    assert!(of(2).is_err());
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let detector = concat!(env!("CARGO_MANIFEST_DIR"), "/../../weights/detector_mini.safetensors");
    let refused = BoxRefiner::open(detector).err().unwrap().to_string();
    assert!(
        refused.contains("it is a model for detection, and one for a refiner of boxes is needed"),
        "{refused}"
    );
    let path = dir.path().join("refiner.safetensors");
    model_metadata(REFINER, "ebm", Some(7), &config(""), &[])
        .unwrap()
        .save(&path, &Default::default())
        .unwrap();
    let refused = BoxRefiner::open(&path).err().unwrap().to_string();
    assert!(refused.contains("its tensors are not those of its configuration"), "{refused}");
}
