//! Objectives against golden values, and their errors.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{
    DenoisingScoreMatching, Derivatives, Directions, Error, GaussianMixture, KullbackLeibler, MonteCarloNll,
    Objective, QualityRegression, Result, ScoreMatching, SquaredQualityRegression,
};
use rand::RngCore;

use crate::zoo::{Function, Table, TableProposal, WithQuality, assert_close, flat, gaussian, rng};

// Independent float64 values for f = (.2, -1, .5, 1.5), q = (2, .5, 1, .1), f0 = .7.
const F: [f64; 5] = [0.7, 0.2, -1.0, 0.5, 1.5];
const Q: [f64; 4] = [2.0, 0.5, 1.0, 0.1];
const NLL: f64 = 1.780_983_803_718_423_6;
const GRADIENT: [f64; 5] = [-1.0, 0.01277295, 0.01538856, 0.03448337, 0.93735512];

#[test]
fn eq4_golden_value_and_gradient() {
    let table = Var::new(&[F], &Device::Cpu).unwrap();
    let log_q = Tensor::new(&[Q.map(f64::ln)], &Device::Cpu).unwrap();
    let objective = MonteCarloNll { proposal: TableProposal(log_q), num_samples: 4 };
    let y = Tensor::new(&[[0.0]], &Device::Cpu).unwrap();
    let loss = objective.loss(&Table, &table, &y, &mut rng(0)).unwrap();
    assert!((loss.to_scalar::<f64>().unwrap() - NLL).abs() < 1e-14);
    assert_close(&flat(loss.backward().unwrap().get(&table).unwrap()), &GRADIENT, 5e-9);
}

#[test]
fn eq4_is_the_mean_over_the_batch() {
    // The second example has equal weights 1, hence the loss -f0.
    let table = Tensor::new(&[F, [-3.0, 0.0, 0.0, 0.0, 0.0]], &Device::Cpu).unwrap();
    let log_q = Tensor::new(&[Q.map(f64::ln), [0.0; 4]], &Device::Cpu).unwrap();
    let objective = MonteCarloNll { proposal: TableProposal(log_q), num_samples: 4 };
    let y = Tensor::zeros((2, 3), DType::F64, &Device::Cpu).unwrap();
    let loss = objective.loss(&Table, &table, &y, &mut rng(0)).unwrap();
    assert!((loss.to_scalar::<f64>().unwrap() - (NLL + 3.0) / 2.0).abs() < 1e-14);
}

#[test]
fn targets_and_samples_are_scored_in_one_call_and_constant() {
    let calls = std::cell::RefCell::new(Vec::new());
    let model = Function::new(|y: &Tensor| {
        calls.borrow_mut().push((y.dims().to_vec(), flat(&y.narrow(1, 0, 1)?)));
        Ok(y.sqr()?.sum(2)?)
    });
    let y = Var::new(&[[0.5, 1.0], [2.0, 3.0]], &Device::Cpu).unwrap();
    let objective =
        MonteCarloNll { proposal: GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap(), num_samples: 9 };
    let loss = objective.loss(&model, &(), &y, &mut rng(0)).unwrap();
    assert_eq!(*calls.borrow(), [(vec![2, 10, 2], vec![0.5, 1.0, 2.0, 3.0])]);
    // Only the targets are variables here, and no gradient may reach them.
    assert!(loss.backward().unwrap().get(&y).is_none());
}

#[test]
fn quality_regression_golden_value() {
    // q = (1, .75, 0) gives the targets (1, .5, -1); f - target = (-2, .25, 1).
    let table = Var::new(&[[-1.0, 0.75, 0.0]], &Device::Cpu).unwrap();
    let quality = |candidates: &Tensor, y: &Tensor| -> Result<Tensor> {
        assert_eq!((candidates.dims(), y.dims()), (&[1, 3, 2][..], &[1, 2][..]));
        assert_eq!(flat(&candidates.narrow(1, 0, 1)?), flat(y));
        Ok(Tensor::new(&[[1.0, 0.75, 0.0]], &Device::Cpu)?)
    };
    let proposal = GaussianMixture::isotropic(&[1.0], 2).unwrap();
    let objective = QualityRegression { proposal, num_samples: 2, with_target: true };
    let y = Tensor::new(&[[5.0, 6.0]], &Device::Cpu).unwrap();
    let loss = objective.loss(&WithQuality(Table, quality), &table, &y, &mut rng(0)).unwrap();
    assert!((loss.to_scalar::<f64>().unwrap() - (1.5 + 0.03125 + 0.5) / 3.0).abs() < 1e-15);
    let gradient = flat(loss.backward().unwrap().get(&table).unwrap());
    assert_close(&gradient, &[-1.0 / 3.0, 0.25 / 3.0, 1.0 / 3.0], 1e-15);
}

#[test]
fn squared_quality_regression_golden_value() {
    // As above without the target: f - target = (.25, 1).
    let table = Var::new(&[[0.75, 0.0]], &Device::Cpu).unwrap();
    let quality = |candidates: &Tensor, y: &Tensor| -> Result<Tensor> {
        assert_eq!((candidates.dims(), y.dims()), (&[1, 2, 2][..], &[1, 2][..]));
        Ok(Tensor::new(&[[0.75, 0.0]], &Device::Cpu)?)
    };
    let proposal = GaussianMixture::isotropic(&[1.0], 2).unwrap();
    let objective = SquaredQualityRegression { proposal, num_samples: 2 };
    let y = Tensor::new(&[[5.0, 6.0]], &Device::Cpu).unwrap();
    let loss = objective.loss(&WithQuality(Table, quality), &table, &y, &mut rng(0)).unwrap();
    assert!((loss.to_scalar::<f64>().unwrap() - (0.0625 + 1.0) / 2.0).abs() < 1e-15);
    let gradient = flat(loss.backward().unwrap().get(&table).unwrap());
    assert_close(&gradient, &[0.25, 1.0], 1e-15);
}

#[test]
fn both_objectives_see_the_same_samples() {
    let seen = std::cell::RefCell::new(Vec::new());
    let model = Function::new(|y: &Tensor| {
        seen.borrow_mut().push(flat(y));
        Ok(y.sum(2)?)
    });
    let proposal = GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    let y = Tensor::new(&[[0.0, 1.0]], &Device::Cpu).unwrap();
    let nll = MonteCarloNll { proposal: &proposal, num_samples: 5 };
    nll.loss(&model, &(), &y, &mut rng(8)).unwrap();
    let quality = |candidates: &Tensor, _: &Tensor| -> Result<Tensor> { Ok(candidates.sum(2)?) };
    let regression = QualityRegression { proposal: &proposal, num_samples: 5, with_target: true };
    regression.loss(&WithQuality(&model, quality), &(), &y, &mut rng(8)).unwrap();
    let alone = QualityRegression { with_target: false, ..regression };
    alone.loss(&WithQuality(&model, quality), &(), &y, &mut rng(8)).unwrap();
    let seen = seen.borrow();
    assert_eq!(seen[0], seen[1]);
    // IoU-Net is not trained on the target itself.
    assert_eq!(seen[0][2..], seen[2]);
}

#[test]
fn bad_inputs_have_typed_errors() {
    let proposal = GaussianMixture::isotropic(&[0.1], 2).unwrap();
    let model = gaussian(&[0.0, 0.0], &[1.0, 1.0], 0.0);
    let loss = |num_samples, y: &Tensor| {
        MonteCarloNll { proposal: &proposal, num_samples }.loss(&model, &(), y, &mut rng(0)).unwrap_err()
    };
    let y = |shape: (usize, usize)| Tensor::zeros(shape, DType::F64, &Device::Cpu).unwrap();
    assert!(matches!(loss(4, &y((0, 2))), Error::Empty { .. }));
    assert!(matches!(loss(4, &y((3, 1))), Error::Shape { .. }));
    assert!(matches!(loss(4, &y((3, 2)).unsqueeze(0).unwrap()), Error::Shape { .. }));
    assert!(matches!(loss(0, &y((3, 2))), Error::Setting { name: "num_samples", .. }));
    let nan = Tensor::new(&[[0.0, 1.0], [f64::NAN, 0.0]], &Device::Cpu).unwrap();
    assert!(matches!(loss(4, &nan), Error::NonFinite { index: 2, .. }));

    let wrong = Function::new(|y: &Tensor| Ok(y.clone()));
    let objective = MonteCarloNll { proposal: &proposal, num_samples: 4 };
    let error = objective.loss(&wrong, &(), &y((3, 2)), &mut rng(0)).unwrap_err();
    assert!(matches!(error, Error::Shape { actual, .. } if actual == [3, 5, 2]));

    let quality = |candidates: &Tensor, _: &Tensor| -> Result<Tensor> { Ok(candidates.clone()) };
    let objective = QualityRegression { proposal: &proposal, num_samples: 4, with_target: true };
    let error = objective.loss(&WithQuality(&model, quality), &(), &y((3, 2)), &mut rng(0)).unwrap_err();
    assert!(matches!(error, Error::Shape { actual, .. } if actual == [3, 5, 2]));
}

#[test]
fn an_error_of_the_network_passes_through() {
    let broken = Function::new(|_: &Tensor| Err(Error::model(std::io::Error::other("no such layer"))));
    let objective =
        MonteCarloNll { proposal: GaussianMixture::isotropic(&[0.1], 1).unwrap(), num_samples: 1 };
    let y = Tensor::new(&[[0.0]], &Device::Cpu).unwrap();
    let rng: &mut dyn RngCore = &mut rng(0);
    let error = objective.loss(&broken, &(), &y, rng).unwrap_err();
    assert!(matches!(error, Error::Model(_)) && error.to_string().contains("no such layer"), "{error}");
}

/// A random direction in one dimension is a sign v with v² = 1, so that the mean over any number of them is
/// the loss along the coordinate.
#[test]
fn random_directions_are_averaged() {
    let model = gaussian(&[0.4], &[0.8], 0.0);
    let y = Tensor::new(&[[0.1], [-0.9], [2.0]], &Device::Cpu).unwrap();
    let derivatives = Derivatives::Differences { step: 1e-3 };
    let losses = |directions| {
        let noisy = DenoisingScoreMatching { sigma: 0.4, num_samples: 6, derivatives, directions };
        [
            ScoreMatching { derivatives, directions }.loss(&model, &(), &y, &mut rng(3)),
            noisy.loss(&model, &(), &y, &mut rng(3)),
        ]
        .map(|loss| loss.unwrap().to_scalar::<f64>().unwrap())
    };
    let coordinate = losses(Directions::Coordinates);
    assert!(coordinate.iter().all(|loss| loss.abs() > 0.1), "{coordinate:?}");
    for count in [1, 3, 8] {
        assert_close(&losses(Directions::Random { count }), &coordinate, 1e-8);
    }
}

/// A sample that the label excludes has the weight 0, even where f is −∞.
#[test]
fn kld_is_counts_no_sample_that_the_label_excludes() {
    let table = |values: [f64; 2]| Tensor::new(&[values], &Device::Cpu).unwrap();
    let f = table([f64::NEG_INFINITY, 0.5]);
    let model = Function::new(move |_: &Tensor| Ok(f.clone()));
    let objective = KullbackLeibler {
        proposal: TableProposal(table([0.0, 2f64.ln()])),
        num_samples: 2,
        label: TableProposal(table([f64::NEG_INFINITY, 3f64.ln()])),
        normalize_weights: false,
    };
    let y = Tensor::new(&[[0.0]], &Device::Cpu).unwrap();
    let loss = objective.loss(&model, &(), &y, &mut rng(0)).unwrap().to_scalar::<f64>().unwrap();
    // log Z is log (e^½/2)/2, and the weight 3/2 of the other sample gives (3/2 · 1/2)/2.
    assert_close(&[loss], &[0.5 - 4f64.ln() - 0.375], 1e-14);
}
