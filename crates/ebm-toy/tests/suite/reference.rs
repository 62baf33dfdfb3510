//! Short trainings against theory: bounds that no model passes, and cases where an objective has nothing to learn
//! from.

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_experiment::config::Settings;
use ebm_toy::{Experiment, Network, Problem, Schedule, Trained, training_points};

/// Number of points of the grids below on each axis.
const POINTS: usize = 400;

fn grid() -> Vec<f64> {
    (0..POINTS).map(|i| -3.0 + 6.0 * (i as f64 + 0.5) / POINTS as f64).collect()
}

/// The first problem's density as the paper states it: for x < 0 0.8 N(sin x, 0.075²) + 0.2 N(−sin x, 0.075²), else log(y + 1) is
/// N(0, 0.25²); each convolved with N(0, `sigma`²) by sums over the grid.
fn density(x: f64, sigma: f64) -> Vec<f64> {
    let normal = |y: f64, s: f64| (-0.5 * (y / s).powi(2)).exp() / (s * std::f64::consts::TAU.sqrt());
    let sharp = |y: f64| {
        if x < 0.0 {
            0.8 * normal(y - x.sin(), 0.075) + 0.2 * normal(y + x.sin(), 0.075)
        } else if y > -1.0 {
            normal((y + 1.0).ln(), 0.25) / (y + 1.0)
        } else {
            0.0
        }
    };
    if sigma == 0.0 {
        return grid().into_iter().map(sharp).collect();
    }
    let step = 6.0 / POINTS as f64;
    grid().iter().map(|y| grid().iter().map(|z| sharp(*z) * normal(y - z, sigma) * step).sum()).collect()
}

/// Computes the mean of KL(truth ‖ model) over x by sums over the grid.
fn divergence(trained: &Trained) -> f64 {
    let column = |values: Vec<f64>| {
        let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
        Tensor::from_vec(values, ((), 1), &Device::Cpu).unwrap()
    };
    let f = trained.log_density(&column(grid()), &column(grid()).t().unwrap()).unwrap();
    let rows = f.to_vec2::<f32>().unwrap();
    let step = 6.0 / POINTS as f64;
    let mean = grid().into_iter().zip(rows).map(|(x, row)| {
        let most = row.iter().copied().fold(f32::MIN, f32::max);
        let z = row.iter().map(|f| f64::from(f - most).exp()).sum::<f64>() * step;
        let log_model = |f: f32| f64::from(f - most) - z.ln();
        let terms = density(x, 0.0).into_iter().zip(row).filter(|(p, _)| *p > 0.0);
        terms.map(|(p, f)| p * (p.ln() - log_model(f)) * step).sum::<f64>()
    });
    mean.sum::<f64>() / POINTS as f64
}

/// Computes the mean over x of E (∂/∂y log p)² of the density convolved with N(0, `sigma`²).
fn fisher_information(sigma: f64) -> f64 {
    let step = 6.0 / POINTS as f64;
    let of = |x: &f64| {
        let p = density(*x, sigma);
        let slopes =
            p.windows(2).map(|pair| (pair[1] - pair[0]).powi(2) / (pair[0] + pair[1]).max(1e-300) * 2.0);
        slopes.sum::<f64>() / step
    };
    let every = grid().into_iter().step_by(10).collect::<Vec<_>>();
    every.iter().map(of).sum::<f64>() / every.len() as f64
}

/// Trains a model for `epochs`, and returns it with the mean loss of its last epoch.
fn train(name: &str, network: Network, epochs: usize) -> (Trained, f64) {
    let mut experiment = Experiment::embedded("figure2").unwrap();
    experiment.network = network;
    experiment.schedule = Schedule { epochs, batch_size: 32, learning_rate: 3e-3 };
    let mut methods = experiment.methods(Problem::Dataset1);
    let method = methods.find(|method| method.name == name).unwrap();
    let fewer = toml::to_string(method).unwrap().replace("num_samples = 1024", "num_samples = 64");
    let points = training_points(Problem::Dataset1);
    let (trained, losses) = experiment.train(&toml::from_str(&fewer).unwrap(), &points, Key::new(3)).unwrap();
    (trained, losses.last().copied().unwrap())
}

/// Divergence of the best Gaussian for each x from the true density, in nats; both from golden/networks.py.
const BEST_GAUSSIAN: f64 = 0.69995;
/// Divergence of the uniform density on [−3, 3] from the true density, in nats.
const UNIFORM: f64 = 2.11883;

#[test]
fn a_gaussian_stays_above_the_best_and_an_energy_comes_below() {
    let (gaussian, _) = train("Gaussian", Network::Eccv, 20);
    let found = divergence(&gaussian);
    assert!((BEST_GAUSSIAN..BEST_GAUSSIAN + 0.1).contains(&found), "{found}");
    let (energy, _) = train("ML-IS", Network::Eccv, 12);
    let found = divergence(&energy);
    assert!((0.0..0.5 * BEST_GAUSSIAN).contains(&found), "{found}");
}

/// E tr ∂²f + ½ (∂f)² is ½ E (∂f − ∂log p)² less half of p's Fisher information.
#[test]
fn score_matching_comes_near_its_bound_where_f_is_curved() {
    let bound = -0.5 * fisher_information(0.0);
    let (model, loss) = train("SM", Network::Bmvc, 20);
    assert!((bound..0.7 * bound).contains(&loss), "{loss}, at best {bound}");
    let found = divergence(&model);
    assert!(found < 0.5 * UNIFORM, "{found}");

    // Without a second derivative what remains, ½ (∂f)², is least where f is constant in y.
    let (model, loss) = train("SM", Network::Eccv, 6);
    assert!((0.0..1e-4).contains(&loss), "{loss}");
    let found = divergence(&model);
    assert!((found - UNIFORM).abs() < 0.01, "{found}");
}

/// E (∂f + ε / σ²)² is 1/σ² for a constant f, and at best less by the Fisher information of what the noise
/// makes of p.
#[test]
fn denoising_comes_near_its_bound() {
    let constant = 1.0 / (0.2 * 0.2);
    let bound = constant - fisher_information(0.2);
    let (model, loss) = train("DSM", Network::Bmvc, 20);
    // 128 000 draws have the bound within 1 %.
    assert!(loss > 0.98 * bound && loss < bound + 0.2 * (constant - bound), "{loss}, at best {bound}");
    let found = divergence(&model);
    assert!(found < BEST_GAUSSIAN, "{found}");
}
