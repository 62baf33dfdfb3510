//! A branch that two processes train, which are threads here: one has an object, the other three.

use std::{collections::BTreeMap, ops::Range, rc::Rc, thread};

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_detect::{
    Branch, CachedBatch, FasterRcnn, ImageBatch, Objects,
    config::{ExperimentConfig, Settings},
    training::{BatchSource, BranchTask},
};
use ebm_nn::params::ParamStore;
use ebm_ops::boxes::BBox;
use ebm_train::{Group, Threads, TrainTask};

use crate::formula::hashed;

const BOXES: [&[BBox]; 2] =
    [&[[5., 8., 40., 44.]], &[[5., 8., 120., 90.], [20., 30., 40., 52.], [11., 70., 90., 140.]]];
/// The first image is small, so that it has fewer proposals.
const SIZES: [(usize, usize); 2] = [(48, 48), (160, 160)];

fn config() -> ExperimentConfig {
    let mut config = ExperimentConfig::embedded("mini").unwrap();
    (config.detector.backbone.fpn_channels, config.detector.roi.representation) = (4, 16);
    // Every proposal is in the sample: the densities' losses depend on no draw.
    (config.detector.roi.sample_size, config.detector.roi.positive_fraction) = (100_000, 1.0);
    for training in config.trainings_mut() {
        training.gradient_clip = 0.0;
    }
    config
}

/// Source of these images of the batch in every step.
struct Always(Range<usize>);

impl BatchSource for Always {
    fn batch(&mut self, _: usize) -> ebm_detect::Result<CachedBatch> {
        let level = |(i, side): (usize, usize)| {
            let values = (0..2 * 4 * side * side).map(|at| 2.0 * hashed(&format!("p{i}"), at) as f32 - 1.0);
            let level = Tensor::from_vec(values.collect(), (2, 4, side, side), &Device::Cpu)?;
            level.narrow(0, self.0.start, self.0.len())
        };
        let pixels = Tensor::zeros((self.0.len(), 3, 160, 160), DType::F32, &Device::Cpu)?;
        let labels = [vec![2], vec![1, 5, 3]];
        Ok(CachedBatch {
            maps: (2..).zip([40, 20, 10, 5, 3]).map(level).collect::<candle_core::Result<_>>()?,
            images: ImageBatch { pixels, sizes: SIZES[self.0.clone()].to_vec() },
            objects: self
                .0
                .clone()
                .map(|i| Objects { boxes: BOXES[i].to_vec(), classes: labels[i].clone() })
                .collect(),
        })
    }
}

/// Returns the loss of a step on these images, and all gradients.
fn step(method: &str, images: Range<usize>, key: Key, group: &Group) -> (f64, Vec<f32>) {
    let (config, device) = (config(), Device::Cpu);
    let method = config.method(method).unwrap();
    let density = method.density.as_ref();
    let (branch, store) =
        Branch::new(density, &config.detector, &BTreeMap::new(), &device, Key::new(0)).unwrap();
    let frozen = ParamStore::new(Key::new(1));
    frozen.freeze(|_| true);
    let detector = FasterRcnn::new(&config.detector, frozen.var_builder(DType::F32, &device)).unwrap();
    let (detector, source) = (Rc::new(detector), Box::new(Always(images)));
    let training = config.training(method).unwrap();
    let task = BranchTask::new(detector, branch, store.clone(), source, method, &training, key).unwrap();
    let (report, update) = task.over(group).step(0).unwrap();
    let values = |var: &candle_core::Var| match update.gradients.get(var) {
        Some(gradient) => gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
        None => vec![0.0; var.elem_count()],
    };
    (report.loss, store.trainable().iter().flat_map(|(_, var)| values(var)).collect())
}

/// Returns loss and gradients of two processes, each with one of the images.
fn by_two(method: &str, key: Key) -> Vec<(f64, Vec<f32>)> {
    thread::scope(|scope| {
        let start = |engine: Threads| {
            scope.spawn(move || {
                let group = Group::new(Box::new(engine));
                let rank = group.rank();
                step(method, rank..rank + 1, key, &group)
            })
        };
        let threads: Vec<_> = Threads::new(2).into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Returns the weighted mean of two steps.
fn mean(a: &(f64, Vec<f32>), b: &(f64, Vec<f32>), [wa, wb]: [f64; 2]) -> (f64, Vec<f32>) {
    let of = |a: f64, b: f64| (wa * a + wb * b) / (wa + wb);
    let gradients = a.1.iter().zip(&b.1).map(|(&a, &b)| of(f64::from(a), f64::from(b)) as f32);
    (of(a.0, b.0), gradients.collect())
}

/// Returns the largest difference of gradients, relative to the largest of the first.
fn apart(a: &(f64, Vec<f32>), b: &(f64, Vec<f32>)) -> f32 {
    let largest = a.1.iter().fold(0f32, |m, v| m.max(v.abs()));
    a.1.iter().zip(&b.1).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / largest
}

#[test]
fn a_density_learns_what_one_process_learns() {
    let (key, alone) = (Key::new(3), Group::alone());
    for method in ["gaussian", "laplace", "mixture2"] {
        let whole = step(method, 0..2, key, &alone);
        for found in by_two(method, key) {
            assert!((found.0 - whole.0).abs() < 1e-5 * whole.0.abs(), "{method}: {} {}", found.0, whole.0);
            assert!(apart(&whole, &found) < 1e-4, "{method}: {}", apart(&whole, &found));
        }
        // The mean of both shares' means is another gradient.
        let [first, second] = [0..1, 1..2].map(|images| step(method, images, key, &alone));
        let unweighted = mean(&first, &second, [1.0, 1.0]);
        assert!(apart(&whole, &unweighted) > 0.05, "{method}: {}", apart(&whole, &unweighted));
    }
}

#[test]
fn every_object_counts_alike_in_eq_4() {
    let (key, alone) = (Key::new(5), Group::alone());
    for method in ["ebm", "iou_net_star"] {
        // Each process draws its own boxes: the mean of the steps on one image, weighted by the number of objects.
        let first = step(method, 0..1, key, &alone);
        let second = step(method, 1..2, key.split("rank").index(1), &alone);
        let expected = mean(&first, &second, [1.0, 3.0]);
        for found in by_two(method, key) {
            assert!((found.0 - expected.0).abs() < 1e-5 * expected.0.abs(), "{method}");
            assert!(apart(&expected, &found) < 1e-4, "{method}: {}", apart(&expected, &found));
        }
        let unweighted = mean(&first, &second, [1.0, 1.0]);
        assert!(apart(&expected, &unweighted) > 0.05, "{method}: {}", apart(&expected, &unweighted));
    }
}
