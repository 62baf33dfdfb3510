//! Adaptive importance sampling against closed forms.

use candle_core::{DType, Device, Tensor};
use ebm_core::{AdaptiveSampler, EnergyModel, Error, GaussianMixture, ImportanceDensity, Result};
use rand::Rng;
use rand_distr::StandardNormal;

use super::log_normal_density;
use crate::zoo::{Function, assert_close, gaussian, rng};

type LogDensity = Box<dyn Fn(&[f64]) -> f64>;

/// Coordinate k of y, a bound c, and P(y_k ≤ c).
type Probability = (usize, f64, f64);

/// log Z of every model here.
const LOG_Z: f64 = 3.0;

/// f is a normalised log-density of y plus [`LOG_Z`], with the same one for every input.
fn model(log_p: &LogDensity) -> Function<'_> {
    Function::new(move |y: &Tensor| {
        let (batch, count, dim) = y.dims3()?;
        let y = y.flatten_all()?.to_vec1::<f64>()?;
        let f: Vec<f64> = y.chunks_exact(dim).map(|y| log_p(y) + LOG_Z).collect();
        Ok(Tensor::from_vec(f, (batch, count), &Device::Cpu)?)
    })
}

/// One density about 0 of the mixture of Eq. 5 with σ = 1/4 and 1.
fn sample(log_p: &LogDensity, dim: usize, num_samples: usize, seed: u64) -> ImportanceDensity {
    let q = GaussianMixture::isotropic(&[0.25, 1.0], dim).unwrap();
    let center = Tensor::zeros((1, dim), DType::F64, &Device::Cpu).unwrap();
    let sampler = AdaptiveSampler::new(num_samples);
    sampler.densities(&model(log_p), &(), &q, &center, &mut rng(seed)).unwrap().remove(0)
}

/// P(N(0, 1) ≤ 1.645) and the like.
const NORMAL: [(f64, f64); 3] = [(-1.645, 0.05), (0.0, 0.5), (1.645, 0.95)];

fn normal_at(k: usize, mean: f64, sigma: f64) -> impl Iterator<Item = Probability> {
    NORMAL.into_iter().map(move |(z, p)| (k, mean + sigma * z, p))
}

/// A Gaussian with σ = 0.2 and a correlation of 0.95 between neighbours. Its narrowest direction has σ = 0.03.
fn correlated(dim: usize) -> (LogDensity, Vec<Probability>) {
    let (sigma, rho) = (0.2, 0.95f64);
    let mean = move |k: usize| if k < dim / 2 { 0.8 } else { 0.5 };
    let rest = sigma * (1.0 - rho * rho).sqrt();
    let log_p = move |y: &[f64]| {
        let step = |k: usize| log_normal_density(y[k], mean(k) + rho * (y[k - 1] - mean(k - 1)), rest);
        log_normal_density(y[0], mean(0), sigma) + (1..dim).map(step).sum::<f64>()
    };
    (Box::new(log_p), (0..dim).flat_map(|k| normal_at(k, mean(k), sigma)).collect())
}

/// Two modes that are 7 σ apart, with the probabilities 0.3 and 0.7.
fn two_modes(dim: usize) -> (LogDensity, Vec<Probability>) {
    let log_p = |y: &[f64]| {
        let at = |mean| log_normal_density(y[0], mean, 0.2).exp();
        let rest = y[1..].iter().map(|y| log_normal_density(*y, 0.2, 0.3));
        (0.3 * at(-0.6) + 0.7 * at(0.8)).ln() + rest.sum::<f64>()
    };
    let modes = [(0, -0.6, 0.15), (0, 0.1, 0.3), (0, 0.8, 0.65)];
    (Box::new(log_p), modes.into_iter().chain((1..dim).flat_map(|k| normal_at(k, 0.2, 0.3))).collect())
}

/// Student's t with three degrees of freedom, for an even D.
fn heavy_tails(dim: usize) -> (LogDensity, Vec<Probability>) {
    let factor = |k: usize| (3.0 + k as f64) / (3.0 * std::f64::consts::TAU);
    let peak: f64 = (0..dim).step_by(2).map(factor).product();
    let log_p = move |y: &[f64]| {
        let square: f64 = y.iter().map(|y| ((y - 0.3) / 0.3).powi(2)).sum();
        peak.ln() - dim as f64 * 0.3f64.ln() - 0.5 * (3.0 + dim as f64) * (square / 3.0).ln_1p()
    };
    let quantiles = [(-2.353, 0.05), (0.0, 0.5), (2.353, 0.95)];
    let at = |k: usize| quantiles.into_iter().map(move |(t, p)| (k, 0.3 + 0.3 * t, p));
    (Box::new(log_p), (0..dim).flat_map(at).collect())
}

/// A parabola in the first two coordinates.
fn banana(_: usize) -> LogDensity {
    Box::new(|y| {
        let rest = y[2..].iter().map(|y| log_normal_density(*y, 0.2, 0.3)).sum::<f64>();
        log_normal_density(y[0], 0.3, 0.4) + log_normal_density(y[1], 1.5 * y[0] * y[0] - 0.3, 0.15) + rest
    })
}

#[track_caller]
fn assert_probabilities(p: &ImportanceDensity, probabilities: &[Probability], what: &str) {
    for &(k, bound, want) in probabilities {
        let got = p.expectation(|y| f64::from(y[k] <= bound));
        assert!((got - want).abs() < 0.06, "{what}: P(y{k} ≤ {bound}) = {got}, not {want}");
    }
}

#[test]
fn log_z_quantiles_and_effective_sizes_of_closed_forms() {
    type Target = fn(usize) -> (LogDensity, Vec<Probability>);
    /// Dimension, number of samples, and the least effective share of them.
    type Size = (usize, usize, f64);
    let targets: [(&str, Target, [Size; 3]); 3] = [
        ("correlated", correlated, [(2, 1024, 0.6), (4, 2048, 0.4), (8, 4096, 0.33)]),
        ("two modes", two_modes, [(2, 1024, 0.55), (4, 2048, 0.4), (8, 4096, 0.25)]),
        ("heavy tails", heavy_tails, [(2, 1024, 0.8), (4, 2048, 0.7), (8, 4096, 0.6)]),
    ];
    for (name, target, sizes) in targets {
        for (dim, num_samples, least) in sizes {
            let (log_p, probabilities) = target(dim);
            let (mut shares, mut errors) = (0.0, 0.0);
            for seed in 0..4 {
                let p = sample(&log_p, dim, num_samples, seed);
                let what = format!("{name}, D = {dim}, seed {seed}");
                assert_eq!(p.samples().len(), num_samples);
                shares += p.effective_sample_size() / num_samples as f64 / 4.0;
                errors += (p.log_z() - LOG_Z).abs() / 4.0;
                assert_probabilities(&p, &probabilities, &what);
            }
            assert!(shares > least && errors < 0.05, "{name}, D = {dim}: {shares}, {errors} nats");
        }
    }
}

/// Draws from a chain of Metropolis with normal steps: another sampler than the one under test.
fn metropolis(log_p: &LogDensity, dim: usize, count: usize) -> Vec<Vec<f64>> {
    let (mut rng, mut y) = (rng(9), vec![0.2; dim]);
    let mut at = log_p(&y);
    let mut draw = || {
        for _ in 0..10 {
            let next: Vec<f64> = y.iter().map(|y| y + 0.25 * rng.sample::<f64, _>(StandardNormal)).collect();
            let there = log_p(&next);
            if rng.random::<f64>().ln() < there - at {
                (y, at) = (next, there);
            }
        }
        y.clone()
    };
    (0..count).map(|_| draw()).collect()
}

#[test]
fn a_banana_is_as_metropolis_draws_it() {
    for (dim, num_samples, least) in [(2, 1024, 0.45), (4, 4096, 0.4)] {
        let log_p = banana(dim);
        let p = sample(&log_p, dim, num_samples, 1);
        let share = p.effective_sample_size() / num_samples as f64;
        assert!((p.log_z() - LOG_Z).abs() < 0.05 && share > least, "{} and {share}", p.log_z());
        let draws = metropolis(&log_p, dim, 40_000);
        for k in 0..dim {
            let mut sorted: Vec<f64> = draws.iter().map(|y| y[k]).collect();
            sorted.sort_by(f64::total_cmp);
            let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
            assert!((p.mean()[k] - mean).abs() < 0.05, "{k}: {} not {mean}", p.mean()[k]);
            for share in [0.05, 0.25, 0.5, 0.75, 0.95] {
                let bound = sorted[(share * sorted.len() as f64) as usize];
                let got = p.expectation(|y| f64::from(y[k] <= bound));
                assert!((got - share).abs() < 0.05, "y{k}: {got} not {share}");
            }
        }
    }
}

/// f is a Gaussian of one input's own mean and width, and of its own log Z.
struct Inputs;

impl EnergyModel for Inputs {
    /// Means, widths and log Z, (B, 1, 5) for D = 2.
    type Features = Tensor;
    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let part = |from: usize, count: usize| x.narrow(2, from, count);
        let z = y.broadcast_sub(&part(0, 2)?)?.broadcast_div(&part(2, 2)?)?;
        let level = (part(4, 1)? - part(2, 2)?.log()?.sum_keepdim(2)?)?.squeeze(2)?;
        let f = z.sqr()?.sum(2)?.affine(-0.5, -std::f64::consts::TAU.ln())?;
        Ok(f.broadcast_add(&level)?)
    }
}

const INPUTS: [[f64; 5]; 3] =
    [[0.0, 0.5, 0.3, 0.1, 2.0], [9.0, -7.5, 0.05, 0.4, -40.0], [-4.0, 4.0, 0.9, 0.02, 700.0]];

fn inputs(sampler: &AdaptiveSampler, dtype: DType, seed: u64) -> Vec<ImportanceDensity> {
    let of = |values: Vec<f64>, shape| {
        let values = Tensor::from_vec(values, candle_core::Shape::from_dims(shape), &Device::Cpu).unwrap();
        values.to_dtype(dtype).unwrap()
    };
    let (x, center) = (of(INPUTS.concat(), &[3, 1, 5]), of(vec![0.0, 0.0, 9.0, -8.0, -4.3, 3.6], &[3, 2]));
    let q = GaussianMixture::new(vec![vec![0.3, 0.3], vec![1.0, 1.0]]).unwrap();
    sampler.densities(&Inputs, &x, &q, &center, &mut rng(seed)).unwrap()
}

#[test]
fn each_input_of_a_batch_has_its_own_density() {
    for (dtype, error) in [(DType::F64, 1e-9), (DType::F32, 1e-3)] {
        for (p, x) in inputs(&AdaptiveSampler::new(2048), dtype, 3).iter().zip(INPUTS) {
            let size = p.effective_sample_size();
            assert!(size > 0.4 * 2048.0 && (p.log_z() - x[4]).abs() < 0.05 + error, "{size}, {}", p.log_z());
            let probabilities = (0..2).flat_map(|k| normal_at(k, x[k], x[2 + k])).collect::<Vec<_>>();
            assert_probabilities(p, &probabilities, &format!("{x:?}"));
            assert_close(&[p.weights().iter().sum::<f64>()], &[1.0], 1e-12);
        }
    }
    let [first, again] = [0; 2].map(|_| inputs(&AdaptiveSampler::new(256), DType::F64, 5));
    assert_eq!(first, again);
}

#[test]
fn sampling_ends_at_the_effective_size_or_with_the_samples() {
    let sampler = |size| AdaptiveSampler { target_effective_size: Some(size), ..AdaptiveSampler::new(2048) };
    for p in inputs(&sampler(200.0), DType::F64, 0) {
        assert!(p.reached_target() && p.effective_sample_size() >= 200.0);
        assert!(p.samples().len() < 1500, "{}", p.samples().len());
    }
    // Both chains count together: none of 1024 samples has this effective size alone.
    for p in inputs(&sampler(700.0), DType::F64, 0) {
        assert!(p.reached_target() && p.effective_sample_size() >= 700.0, "{}", p.effective_sample_size());
    }
    for p in inputs(&sampler(2000.0), DType::F64, 0) {
        assert!(!p.reached_target() && p.samples().len() == 2048);
    }
    assert!(inputs(&AdaptiveSampler::new(99), DType::F64, 0).iter().all(|p| !p.reached_target()));
    assert_eq!(inputs(&AdaptiveSampler::new(99), DType::F64, 0)[0].samples().len(), 98);
}

#[test]
fn the_standard_error_is_the_spread_of_repeated_estimates() {
    let (log_p, _) = correlated(2);
    let runs: Vec<_> = (0..100).map(|seed| sample(&log_p, 2, 512, seed)).collect();
    let mean = runs.iter().map(|p| p.log_z() - LOG_Z).sum::<f64>() / 100.0;
    let spread = (runs.iter().map(|p| (p.log_z() - LOG_Z - mean).powi(2)).sum::<f64>() / 99.0).sqrt();
    let claimed = runs.iter().map(ImportanceDensity::standard_error).sum::<f64>() / 100.0;
    assert!((0.6..1.4).contains(&(claimed / spread)) && mean.abs() < 0.02, "{claimed}, {spread}, {mean}");
}

/// A narrow density leaves nothing far from it but samples of the proposal: 13 of the 128 in a round.
#[test]
fn a_tenth_of_the_later_samples_comes_from_the_proposal() {
    let narrow: LogDensity = Box::new(|y| log_normal_density(y[0], 0.5, 0.01));
    let q = GaussianMixture::isotropic(&[1.0], 1).unwrap();
    let center = Tensor::zeros((1, 1), DType::F64, &Device::Cpu).unwrap();
    let sampler = AdaptiveSampler::new(4096);
    let p = sampler.densities(&model(&narrow), &(), &q, &center, &mut rng(4)).unwrap().remove(0);
    // The last four rounds of each of the two chains. P(|N(0, 1) − 0.5| > 0.3) is 0.791.
    let samples: Vec<f64> = p.samples().map(|y| y[0]).collect();
    let late = samples.chunks_exact(2048).flat_map(|chain| &chain[1536..]);
    let far = late.filter(|y| (**y - 0.5).abs() > 0.3).count();
    assert!((65..=100).contains(&far), "{far} of 1024, not about 82");
    assert!((p.log_z() - LOG_Z).abs() < 0.05, "{}", p.log_z());
}

/// f is constant, so that only the limits of the components, here with a largest σ of 1, hold the samples.
#[test]
fn a_density_without_bounds_stays_near_the_proposal() {
    let flat: LogDensity = Box::new(|_| 0.0);
    let p = sample(&flat, 2, 4096, 0);
    let far = p.samples().filter(|y| y.iter().any(|y| y.abs() > 10.0)).count();
    assert!(far < 200, "{far} of 4096 samples are beyond 10 σ");
}

#[test]
fn bad_inputs_have_typed_errors() {
    let q = GaussianMixture::isotropic(&[1.0], 1).unwrap();
    let center = Tensor::new(&[[3.0], [-3.0]], &Device::Cpu).unwrap();
    let sampler = AdaptiveSampler::new(200);
    let log = Function::new(|y: &Tensor| Ok(y.sum(2)?.log()?));
    let refuse = |sampler: &AdaptiveSampler, center: &Tensor| {
        sampler.densities(&log, &(), &q, center, &mut rng(0)).unwrap_err()
    };
    let error = refuse(&sampler, &center);
    assert!(matches!(&error, Error::NonFiniteScore { x: 0 | 1, y, .. } if y[0] < 0.0), "{error}");
    let nothing = Function::new(|y: &Tensor| Ok(((y.sum(2)? * 0.0)? - f64::INFINITY)?));
    let error = sampler.densities(&nothing, &(), &q, &center, &mut rng(0)).unwrap_err();
    assert!(matches!(error, Error::NoMass(0)), "{error}");
    for name in ["num_samples", "rounds", "components", "target_effective_size"] {
        let mut bad = sampler;
        match name {
            "num_samples" => bad.num_samples = 0,
            "rounds" => bad.rounds = 0,
            "components" => bad.components = 0,
            _ => bad.target_effective_size = Some(0.0),
        }
        let error = refuse(&bad, &center);
        assert!(matches!(&error, Error::Setting { name: found, .. } if *found == name), "{error}");
    }
    let error = refuse(&sampler, &Tensor::zeros((1, 2), DType::F64, &Device::Cpu).unwrap());
    assert!(matches!(error, Error::Shape { what: "the centre", .. }), "{error}");
    let error = refuse(&sampler, &Tensor::new(&[[f64::NAN]], &Device::Cpu).unwrap());
    assert!(matches!(error, Error::NonFinite { what: "the centre", .. }), "{error}");
    // A mode that most first samples miss: f is −∞ elsewhere.
    let step = Function::new(|y: &Tensor| Ok(y.sum(2)?.gt(5.0)?.to_dtype(DType::F64)?.log()?));
    let center = Tensor::new(&[[3.0]], &Device::Cpu).unwrap();
    let wide = AdaptiveSampler::new(4000).densities(&step, &(), &q, &center, &mut rng(0)).unwrap();
    assert!(wide[0].samples().zip(wide[0].weights()).all(|(y, weight)| (y[0] > 5.0) == (*weight > 0.0)));
    for count in [1, 10, 33] {
        let few = AdaptiveSampler::new(count);
        let p = few.densities(&gaussian(&[0.0], &[1.0], 0.0), &(), &q, &center, &mut rng(0)).unwrap();
        assert_eq!(p[0].samples().len(), if count == 33 { 32 } else { count });
        assert_eq!(p[0].standard_error().is_infinite(), count == 1);
    }
}
