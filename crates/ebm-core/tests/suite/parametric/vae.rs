//! The conditional VAE, against a linear model whose density and posterior are Gaussian.

use candle_core::{DType, Device, Tensor};
use ebm_core::Error;
use ebm_core::parametric::{ConditionalVae, Gaussian, LatentVariableModel, Parametric};

use super::{Linear, grid, nll, rows, scalar};
use crate::zoo::{assert_close, flat, rng};

const PRIOR: [f64; 2] = [0.3, -0.4];
const DECODER: [f64; 3] = [1.2, -0.1, -0.6];
const Y: f64 = 0.9;

/// The exact posterior p(z | x, y) of the linear model: mean and log-variance.
fn exact_posterior() -> [f64; 2] {
    let (m, v) = (PRIOR[0], PRIOR[1].exp());
    let (a, b, noise) = (DECODER[0], DECODER[1], DECODER[2].exp());
    let precision = 1.0 / v + a * a / noise;
    [(m / v + a * (Y - b) / noise) / precision, -precision.ln()]
}

/// −log p(y | x) of the linear model.
fn exact_nll() -> f64 {
    let (mean, variance) = Linear::new(PRIOR, PRIOR, DECODER).marginal();
    nll(&Gaussian::new(1).unwrap(), &rows(&[&[mean, variance.ln()]]), &rows(&[&[Y]]))
}

/// The negative bound with q = `posterior`, over S samples.
fn bound(posterior: [f64; 2], samples: usize) -> f64 {
    let vae = ConditionalVae::new(1, 1, samples).unwrap();
    let y = rows(&[&[Y]]);
    let networks = Linear::new(PRIOR, posterior, DECODER);
    let outputs = vae.training_outputs(&networks, &1, &y, &mut rng(6)).unwrap();
    assert_eq!(outputs.dims(), [1, vae.num_outputs()]);
    scalar(&vae.loss(&outputs, &y).unwrap())
}

/// The negative bound in closed form: the expected square of a Gaussian, and the divergence.
fn exact_bound([m_q, s_q]: [f64; 2]) -> f64 {
    let (a, b, s) = (DECODER[0], DECODER[1], DECODER[2]);
    let square = (Y - a * m_q - b).powi(2) + a * a * s_q.exp();
    let kl =
        0.5 * ((s_q - PRIOR[1]).exp() - 1.0 - (s_q - PRIOR[1]) + (m_q - PRIOR[0]).powi(2) / PRIOR[1].exp());
    0.5 * (std::f64::consts::TAU.ln() + s + square / s.exp()) + kl
}

#[test]
fn the_bound_is_tight_at_the_exact_posterior_and_below_elsewhere() {
    let exact = exact_posterior();
    assert_close(&[exact_bound(exact)], &[exact_nll()], 1e-14);
    let samples = 200_000;
    for shift in [[0.0, 0.0], [0.4, 0.0], [-0.4, 0.0], [0.0, 0.7], [0.0, -0.7]] {
        let posterior = [exact[0] + shift[0], exact[1] + shift[1]];
        let want = exact_bound(posterior);
        let got = bound(posterior, samples);
        assert!((got - want).abs() < 0.01, "{got}, expected {want}");
        if shift != [0.0, 0.0] {
            assert!(got > exact_nll() + 0.02, "{got} is no bound on {}", exact_nll());
        }
    }
}

#[test]
fn without_a_posterior_of_its_own_the_divergence_vanishes() {
    let want = exact_bound(PRIOR);
    let got = bound(PRIOR, 200_000);
    assert!((got - want).abs() < 0.02 && got > exact_nll(), "{got}, expected {want}");
}

#[test]
fn mean_and_density_approach_those_of_the_marginal() {
    let networks = Linear::new(PRIOR, [9.0, 9.0], DECODER); // prediction does not use the posterior
    let (mean, variance) = networks.marginal();
    let vae = ConditionalVae::new(1, 1, 20_000).unwrap();
    let outputs = vae.prediction_outputs(&networks, &1, &mut rng(7)).unwrap();
    let error = 4.0 * (variance / 20_000.0).sqrt();
    assert!((scalar(&vae.mean(&outputs).unwrap()) - mean).abs() < error);

    let (y, _) = grid(mean - 4.0, mean + 4.0, 40);
    let got = flat(&vae.log_prob(&outputs, &y).unwrap().unwrap());
    let gaussian = Gaussian::new(1).unwrap();
    let want = flat(&gaussian.log_prob(&rows(&[&[mean, variance.ln()]]), &y).unwrap().unwrap());
    for (got, want) in got.iter().zip(want) {
        assert!((got.exp() - want.exp()).abs() < 0.01, "{got}, expected {want}");
    }
}

#[test]
fn outputs_depend_on_the_seed_alone() {
    let networks = Linear::new(PRIOR, PRIOR, DECODER);
    let vae = ConditionalVae::new(1, 1, 3).unwrap();
    let draw = |seed| flat(&vae.prediction_outputs(&networks, &1, &mut rng(seed)).unwrap());
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

/// Networks whose outputs have given shapes.
struct Shapes {
    prior: &'static [usize],
    posterior: &'static [usize],
    decoded: &'static [usize],
}

impl LatentVariableModel for Shapes {
    type Features = ();
    fn prior(&self, (): &()) -> ebm_core::Result<Tensor> {
        Ok(Tensor::zeros(self.prior, DType::F64, &Device::Cpu)?)
    }
    fn posterior(&self, (): &(), _: &Tensor) -> ebm_core::Result<Tensor> {
        Ok(Tensor::zeros(self.posterior, DType::F64, &Device::Cpu)?)
    }
    fn decode(&self, (): &(), _: &Tensor) -> ebm_core::Result<Tensor> {
        Ok(Tensor::zeros(self.decoded, DType::F64, &Device::Cpu)?)
    }
}

#[test]
fn networks_that_break_their_contract_are_named() {
    let vae = ConditionalVae::new(2, 3, 5).unwrap();
    let good = Shapes { prior: &[4, 6], posterior: &[4, 6], decoded: &[4, 5, 4] };
    let y = Tensor::zeros((4, 2), DType::F64, &Device::Cpu).unwrap();
    let outputs = |networks: Shapes, y: &Tensor| vae.training_outputs(&networks, &(), y, &mut rng(0));
    assert_eq!(outputs(Shapes { ..good }, &y).unwrap().dims(), [4, vae.num_outputs()]);

    let named = |networks: Shapes, name: &str| {
        let error = outputs(networks, &y).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }) && error.to_string().contains(name), "{error}");
    };
    named(Shapes { prior: &[4, 5], ..good }, "prior");
    named(Shapes { posterior: &[3, 6], ..good }, "posterior");
    named(Shapes { decoded: &[4, 5, 3], ..good }, "decode");

    assert!(matches!(outputs(Shapes { ..good }, &y.narrow(0, 0, 0).unwrap()), Err(Error::Empty { .. })));
    let nan = (&y * f64::NAN).unwrap();
    assert!(matches!(outputs(Shapes { ..good }, &nan), Err(Error::NonFinite { .. })));
}
