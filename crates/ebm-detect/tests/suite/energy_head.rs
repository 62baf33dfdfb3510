//! The head f(x, y) of boxes: its gradient, packed and in bf16.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::EnergyModel;
use ebm_detect::config::{ExperimentConfig, RefinerConfig, Settings, ViewConfig};
use ebm_detect::{BoxFeatures, Coordinates, EnergyHead, HeadSizes, Pooler};
use ebm_nn::params::ParamStore;
use ebm_ops::boxes::BoxConvention;
use ebm_ops::device::Precision;
use rand::Rng;

use crate::tensors::{difference, largest};

/// A head whose parameters are variables, the same head with constant parameters, and features of boxes.
struct Heads {
    tracked: EnergyHead,
    constant: EnergyHead,
    features: BoxFeatures,
}

/// Energy model with f and its gradient by autograd alone.
struct ByAutograd<'a>(&'a EnergyHead);

impl EnergyModel for ByAutograd<'_> {
    type Features = BoxFeatures;

    fn score(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.0.score(features, y)
    }
}

#[test]
fn the_gradient_by_hand_is_autograds() {
    for Heads { tracked, features, .. } in [small(), of_several_views()] {
        agree(&tracked, &features);
        agree(&tracked, &features.in_coordinates(Coordinates::Edges).unwrap());
    }
}

fn agree(head: &EnergyHead, features: &BoxFeatures) {
    let device = Device::Cpu;
    let shift = Tensor::new(&[[[0f32, 0., 0., 0.], [0.1, -0.05, 0.2, -0.1]]], &device).unwrap();
    let y = features.targets().unwrap().broadcast_add(&shift).unwrap();
    let (f, gradient) = head.score_and_grad(features, &y).unwrap();
    let (f2, gradient2) = ByAutograd(head).score_and_grad(features, &y).unwrap();
    assert!(gradient2.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap() > 0.1);
    assert!(difference(&f, &f2) < 1e-5);
    assert!(difference(&gradient, &gradient2) < 1e-4, "{gradient} {gradient2}");
}

/// A step of any length gives a finite f: the width of log w = 3e4 is infinite.
#[test]
fn boxes_without_bounds_have_a_finite_f() {
    let Heads { tracked, constant, features } = small();
    let wide = Tensor::new(&[[[0f32, 0., 3e4, 3e4], [1e30, -1e30, 0.1, 90.]]], &Device::Cpu).unwrap();
    let y = features.targets().unwrap().broadcast_add(&wide).unwrap();
    for f in [tracked.score(&features, &y), constant.score(&features, &y)] {
        assert!(f.unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().all(|f| f.is_finite()));
    }
    let rule = ebm_core::StepRule::Backtracking;
    let ascent = ebm_core::GradientAscent { steps: 10, step_length: vec![1e4; 4], decay: 0.9, rule };
    let refined = ebm_core::refine(&constant, &features, &features.targets().unwrap(), &ascent).unwrap();
    let pair = [&refined.f_init, &refined.f].map(|f| f.flatten_all().unwrap().to_vec1::<f32>().unwrap());
    assert!(pair[0].iter().zip(&pair[1]).all(|(before, after)| after >= before));
}

/// Returns a branch with four channels, and the features of two images with two boxes and one box.
fn small() -> Heads {
    let mut config = ExperimentConfig::embedded("mini").unwrap().detector;
    (config.backbone.fpn_channels, config.roi.representation) = (4, 16);
    both(|store| EnergyHead::new(&config, store.var_builder(DType::F32, &Device::Cpu)).unwrap())
}

/// Returns a branch whose boxes are pooled in three views, on two or three levels by their size.
fn of_several_views() -> Heads {
    let mut config = RefinerConfig::embedded("refiner").unwrap().network;
    (config.strides, config.coarsest_level, config.canonical_size) = (vec![4, 8, 16, 32], 1, 50.0);
    let view = |(level, context, bins)| ViewConfig { level, context, bins };
    config.views = [(0, 1.0, 3), (1, 1.5, 2), (3, 0.5, 1)].map(view).to_vec();
    let sizes = HeadSizes { channels: 4, representation: 16, classes: 7 };
    both(|store| {
        let vb = store.var_builder(DType::F32, &Device::Cpu);
        EnergyHead::over(Pooler::of_refiner(&config), sizes, vb).unwrap()
    })
}

/// Returns the head of a store with large weights, and the same head with constant parameters.
fn both(head: impl Fn(&ParamStore) -> EnergyHead) -> Heads {
    let store = ParamStore::new(Key::new(1));
    let tracked = head(&store);
    let weight = store.var("energy_predictor.weight").unwrap();
    weight.set(&(weight.as_detached_tensor() * 1000.0).unwrap()).unwrap();
    Heads { tracked, constant: head(&store.constants().unwrap()), features: features() }
}

fn features() -> BoxFeatures {
    features_of([2, 1, 5])
}

/// Returns features of boxes of these classes.
fn features_of(classes: [u32; 3]) -> BoxFeatures {
    let device = Device::Cpu;
    let mut rng = Key::new(2).rng();
    let pyramid: Vec<Tensor> = [40, 20, 10, 5]
        .map(|side| {
            let values: Vec<f32> = (0..2 * 4 * side * side).map(|_| rng.random_range(-1.0..1.0)).collect();
            Tensor::from_vec(values, (2, 4, side, side), &device).unwrap()
        })
        .to_vec();
    // Three sizes, so that more than one level is pooled from, out of order.
    let boxes = [[5., 8., 120., 90.], [20., 30., 40., 52.], [11., 70., 90., 140.]];
    BoxFeatures::new(&pyramid, vec![0, 1, 1], classes.to_vec(), &boxes, BoxConvention::HalfOpen).unwrap()
}

#[test]
fn with_constant_parameters_it_is_the_same_function() {
    for heads in [small(), of_several_views()] {
        the_same_with_constant_parameters(&heads);
    }
}

fn the_same_with_constant_parameters(heads: &Heads) {
    let Heads { tracked, constant: packed, features } = heads;
    // Enough candidates for several chunks.
    let mut rng = Key::new(3).rng();
    let shift: Vec<f32> = (0..3 * 200 * 4).map(|_| rng.random_range(-0.3..0.3)).collect();
    let shift = Tensor::from_vec(shift, (3, 200, 4), &Device::Cpu).unwrap();
    let y = features.targets().unwrap().broadcast_add(&shift).unwrap();
    let (f, gradient) = tracked.score_and_grad(features, &y).unwrap();
    let (packed_f, packed_gradient) = packed.score_and_grad(features, &y).unwrap();
    assert!(largest(&f) > 0.1 && largest(&gradient) > 0.1);
    assert!(difference(&f, &packed_f) < 1e-4 * largest(&f));
    assert!(difference(&gradient, &packed_gradient) < 1e-4 * largest(&gradient));
    assert_eq!(difference(&packed.score(features, &y).unwrap(), &packed_f), 0.0);
    // A gradient does not depend on which other gradients are needed.
    for every in [1, 3, 1000] {
        let needs_gradient = |place: usize, _| place % every == every - 1;
        let (f, some) = packed.score_and_grad_where(features, &y, &needs_gradient).unwrap();
        assert_eq!(difference(&f, &packed_f), 0.0);
        let rows = |gradient: &Tensor| gradient.reshape((600, 4)).unwrap().to_vec2::<f32>().unwrap();
        for (place, (own, all)) in rows(&some).into_iter().zip(rows(&packed_gradient)).enumerate() {
            assert_eq!(
                own,
                if needs_gradient(place, 0.0) { all } else { vec![0.0; 4] },
                "{place} of {every}"
            );
        }
    }
    // A candidate's f depends on no other candidate.
    let alone = packed.score(features, &y.narrow(1, 150, 1).unwrap()).unwrap();
    assert_eq!(difference(&alone, &packed_f.narrow(1, 150, 1).unwrap()), 0.0);
}

#[test]
fn in_bf16_it_is_almost_the_same_function() {
    for Heads { constant: single, features, .. } in [small(), of_several_views()] {
        let y = features.targets().unwrap();
        let (f, gradient) = single.score_and_grad(&features, &y).unwrap();
        // Weights packed before in single precision are dropped.
        let narrow = single.in_precision(Precision::Bf16);
        let (narrow_f, narrow_gradient) = narrow.score_and_grad(&features, &y).unwrap();
        for (exact, narrow) in [(f, narrow_f), (gradient, narrow_gradient)] {
            let (error, scale) = (difference(&exact, &narrow), largest(&exact));
            assert!(error > 1e-6 * scale && error < 0.02 * scale, "{error} of {scale}");
        }
    }
}

#[test]
fn a_class_that_the_branch_does_not_know_is_an_error() {
    let Heads { constant, .. } = small();
    let features = features_of([2, 10_000, 5]);
    assert!(constant.score(&features, &features.targets().unwrap()).is_err());
}
