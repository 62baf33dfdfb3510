//! Properties of every density.

use candle_core::{Device, Tensor};
use ebm_core::parametric::{Gaussian, JointLaplace, Laplace, MixtureOfGaussians, Parametric, gaussian_kl};

use super::{all, grid, nll, rows, scalar, waves};
use crate::zoo::{assert_close, flat};

#[test]
fn every_density_integrates_to_one_and_its_mean_is_the_mean() {
    let (y, width) = grid(-60.0, 60.0, 120_000);
    let mut names = Vec::new();
    for (name, model, outputs) in all(1) {
        let outputs = outputs.narrow(0, 0, 1).unwrap();
        let Some(log_prob) = model.log_prob(&outputs, &y).unwrap() else { continue };
        let p: Vec<f64> = flat(&log_prob).iter().map(|l| l.exp() * width).collect();
        assert_close(&[p.iter().sum()], &[1.0], 1e-7);
        let mean = p.iter().zip(flat(&y)).map(|(p, y)| p * y).sum();
        assert_close(&[mean], &flat(&model.mean(&outputs).unwrap()), 1e-6);
        names.push(name);
    }
    assert_eq!(names, ["gaussian", "laplace", "joint_laplace", "mixture", "vae", "softmax", "coral"]);
}

/// The constants that the published losses leave out.
#[test]
fn losses_are_negative_log_likelihoods_but_for_a_constant() {
    let y = waves((2, 3), 2.0, 1.0);
    let tau = std::f64::consts::TAU;
    let loss_of = |model: &dyn Parametric| {
        let outputs = waves((2, model.num_outputs()), 0.3, 0.9);
        (scalar(&model.loss(&outputs, &y).unwrap()), nll(model, &outputs, &y))
    };
    let (loss, nll) = loss_of(&Gaussian::new(3).unwrap());
    assert_close(&[loss], &[2.0 * nll - 3.0 * tau.ln()], 1e-14);
    let (loss, nll) = loss_of(&Laplace::new(3).unwrap());
    assert_close(&[loss], &[nll - 3.0 * 2f64.ln()], 1e-14);
    let (loss, nll) = loss_of(&JointLaplace::new(3).unwrap());
    assert_close(&[loss], &[2.0 * (nll - (32.0 * tau).ln())], 1e-14);
    let (loss, nll) = loss_of(&MixtureOfGaussians::new(3, 4).unwrap());
    assert_close(&[loss], &[nll], 1e-14);
}

#[test]
fn the_joint_laplace_of_one_coordinate_is_a_laplace() {
    let (y, _) = grid(-5.0, 5.0, 41);
    let beta = 1.7f64;
    let joint = JointLaplace::new(1).unwrap().log_prob(&rows(&[&[0.3, beta.ln()]]), &y).unwrap().unwrap();
    let scale = (2.0 * beta.sqrt()).ln();
    let single = Laplace::new(1).unwrap().log_prob(&rows(&[&[0.3, scale]]), &y).unwrap().unwrap();
    assert_close(&flat(&joint), &flat(&single), 1e-14);
}

#[test]
fn the_joint_laplace_integrates_to_one_in_several_dimensions() {
    // p(y) = g(r) Π β^{-1/2} with r the scaled distance: ∫ p = ∫ g(r) S_D r^{D-1} dr, S_D the unit sphere's
    // surface.
    let pi = std::f64::consts::PI;
    let surfaces = [2.0, 2.0 * pi, 4.0 * pi, 2.0 * pi.powi(2), 8.0 / 3.0 * pi.powi(2), pi.powi(3)];
    for (dim, surface) in (1..).zip(surfaces) {
        let model = JointLaplace::new(dim).unwrap();
        let (n, width) = (20_000, 120.0 / 20_000.0);
        let radius = |i: usize| (i as f64 + 0.5) * width;
        // Points on the first axis of a unit β.
        let y: Vec<f64> =
            (0..n).flat_map(|i| (0..dim).map(move |d| if d == 0 { radius(i) } else { 0.0 })).collect();
        let y = Tensor::from_vec(y, (1, n, dim), &Device::Cpu).unwrap();
        let outputs = rows(&[&vec![0.0; 2 * dim]]);
        let log_prob = flat(&model.log_prob(&outputs, &y).unwrap().unwrap());
        let total: f64 = log_prob
            .iter()
            .enumerate()
            .map(|(i, l)| l.exp() * surface * radius(i).powi(dim as i32 - 1) * width)
            .sum();
        assert_close(&[total], &[1.0], 1e-5);
    }
}

#[test]
fn the_joint_laplace_of_the_head_pose_integrates_to_one_in_space() {
    // A grid in three dimensions, with unequal scales.
    let outputs = rows(&[&[0.2, -0.1, 0.4, 0.0, 0.5, -0.5]]);
    let (n, reach) = (90usize, 36.0);
    let half_width = |d: usize| reach * [1.0, 0.25f64.exp(), (-0.25f64).exp()][d];
    let cell =
        |d: usize, i: usize| [0.2, -0.1, 0.4][d] + half_width(d) * (2.0 * (i as f64 + 0.5) / n as f64 - 1.0);
    let y: Vec<f64> =
        (0..n.pow(3)).flat_map(|at| [cell(0, at / n / n), cell(1, at / n % n), cell(2, at % n)]).collect();
    let y = Tensor::from_vec(y, (1, n.pow(3), 3), &Device::Cpu).unwrap();
    let log_prob = JointLaplace::new(3).unwrap().log_prob(&outputs, &y).unwrap().unwrap();
    let volume: f64 = (0..3).map(|d| 2.0 * half_width(d) / n as f64).product();
    let total = flat(&log_prob).iter().map(|l| l.exp()).sum::<f64>() * volume;
    assert!((total - 1.0).abs() < 3e-3, "{total}");
}

#[test]
fn one_component_is_a_gaussian() {
    let (mixture, gaussian) = (MixtureOfGaussians::new(3, 1).unwrap(), Gaussian::new(3).unwrap());
    let parameters = waves((2, 6), 0.1, 1.5);
    let logit = rows(&[&[4.0], &[-7.0]]);
    let outputs = Tensor::cat(&[&logit, &parameters], 1).unwrap();
    let y = waves((2, 12), 0.9, 2.0).reshape((2, 4, 3)).unwrap();
    let of = |model: &dyn Parametric, outputs| flat(&model.log_prob(outputs, &y).unwrap().unwrap());
    assert_close(&of(&mixture, &outputs), &of(&gaussian, &parameters), 1e-14);
    assert_close(&flat(&mixture.mean(&outputs).unwrap()), &flat(&gaussian.mean(&parameters).unwrap()), 1e-15);
}

#[test]
fn the_divergence_of_gaussians() {
    let (q, p) = (waves((5, 6), 0.0, 2.0), waves((5, 6), 1.0, 2.0));
    assert!(flat(&gaussian_kl(&q, &p).unwrap()).iter().all(|kl| *kl > 0.0));
    assert_eq!(flat(&gaussian_kl(&q, &q).unwrap()), [0.0; 5]);

    // KL(N(1, 4) ‖ N(0, 1)) = ½ (4 − 1 − log 4 + 1).
    let kl = gaussian_kl(&rows(&[&[1.0, 4f64.ln()]]), &rows(&[&[0.0, 0.0]])).unwrap();
    assert_close(&flat(&kl), &[2.0 - 2f64.ln()], 1e-15);

    // By its definition, on a grid.
    let model = Gaussian::new(1).unwrap();
    let (q, p) = (rows(&[&[0.4, -0.3]]), rows(&[&[-0.2, 0.5]]));
    let (y, width) = grid(-20.0, 20.0, 8000);
    let log = |outputs| flat(&model.log_prob(outputs, &y).unwrap().unwrap());
    let total: f64 = log(&q).iter().zip(log(&p)).map(|(q, p)| q.exp() * (q - p) * width).sum();
    assert_close(&flat(&gaussian_kl(&q, &p).unwrap()), &[total], 1e-10);
}
