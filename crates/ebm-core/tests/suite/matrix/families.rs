//! Models with few parameters, and data with known parameters.

use candle_core::{Device, Tensor, Var};
use ebm_core::math::{log_softmax, log_sum_exp};
use ebm_core::{DirectionalDerivatives, EnergyModel, Order, Result};
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use crate::zoo::flat;

/// A model of x (B, 1, 1) that can be the density of its data.
pub trait Family: EnergyModel<Features = Tensor> {
    /// The names of the parameters.
    fn names(&self) -> Vec<&'static str>;
    /// Fresh data of the true parameters: x (B, 1, 1) and y (B, D).
    fn data(&self, batch: usize, rng: &mut dyn RngCore) -> Result<(Tensor, Tensor)>;
    /// Trained variables.
    fn variables(&self) -> Vec<&Var>;
    /// Parameters in a form that the density determines uniquely.
    fn parameters(&self) -> Vec<f64>;
}

/// x and y of a batch from pairs.
pub fn batch(pairs: &[(f64, Vec<f64>)]) -> Result<(Tensor, Tensor)> {
    let (x, y): (Vec<f64>, Vec<&[f64]>) = pairs.iter().map(|(x, y)| (*x, y.as_slice())).unzip();
    let x = Tensor::from_vec(x, (pairs.len(), 1, 1), &Device::Cpu)?;
    Ok((x, Tensor::from_vec(y.concat(), (pairs.len(), y[0].len()), &Device::Cpu)?))
}

pub fn var(values: &[f64], shape: impl Into<candle_core::Shape>) -> Var {
    Var::from_tensor(&Tensor::from_vec(values.to_vec(), shape, &Device::Cpu).unwrap()).unwrap()
}

/// Offset of f that depends on x, as in a network: 2 + x/2. It cancels in the density.
pub fn level(x: &Tensor) -> Result<Tensor> {
    Ok(x.squeeze(2)?.affine(0.5, 2.0)?)
}

/// f = −½ ‖(y − a x − c) W‖² + level, of which exp f / Z is N(a x + c, (W Wᵀ)⁻¹).
pub struct Gaussian {
    a: Var,
    c: Var,
    w: Var,
}

impl Gaussian {
    pub const SLOPE: [f64; 2] = [0.8, -0.5];
    pub const OFFSET: [f64; 2] = [-0.3, 0.4];
    /// The true covariance is C Cᵀ.
    const C: [[f64; 2]; 2] = [[0.5, 0.0], [0.24, 0.55]];

    pub fn new(dim: usize) -> Self {
        let w = [1.0, 0.0, 0.0, 1.0].map(|w| 1.5 * w);
        let w = if dim == 1 { var(&w[..1], (1, 1)) } else { var(&w, (2, 2)) };
        Self { a: var(&vec![0.0; dim], (1, 1, dim)), c: var(&vec![0.0; dim], (1, 1, dim)), w }
    }

    /// Slope, offset and covariance of the data after noise of this variance.
    pub fn expected(dim: usize, noise: f64) -> Vec<f64> {
        let c = Self::C;
        let covariance = |i: usize, j: usize| c[i][0] * c[j][0] + c[i][1] * c[j][1];
        let covariance = [covariance(0, 0) + noise, covariance(1, 1) + noise, covariance(0, 1)];
        let covariance = if dim == 1 { &covariance[..1] } else { &covariance };
        [&Self::SLOPE[..dim], &Self::OFFSET[..dim], covariance].concat()
    }

    /// `y W` of (B, M, D).
    fn whiten(&self, y: &Tensor) -> Result<Tensor> {
        let (batch, count, dim) = y.dims3()?;
        Ok(y.reshape((batch * count, dim))?.matmul(&self.w)?.reshape((batch, count, dim))?)
    }

    fn offset(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.whiten(&y.broadcast_sub(&x.broadcast_mul(&self.a)?.broadcast_add(&self.c)?)?)
    }
}

impl EnergyModel for Gaussian {
    type Features = Tensor;

    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((self.offset(x, y)?.sqr()?.sum(2)? * -0.5)?.broadcast_add(&level(x)?)?)
    }

    fn derivatives_along(
        &self,
        x: &Tensor,
        y: &Tensor,
        direction: &Tensor,
        order: Order,
    ) -> Result<DirectionalDerivatives> {
        let along = self.whiten(direction)?;
        let first = (self.offset(x, y)? * &along)?.sum(2)?.neg()?;
        let second = if order == Order::Second { Some(along.sqr()?.sum(2)?.neg()?) } else { None };
        Ok(DirectionalDerivatives { value: self.score(x, y)?, first, second })
    }
}

impl Family for Gaussian {
    fn names(&self) -> Vec<&'static str> {
        if self.c.elem_count() == 1 {
            vec!["a", "c", "σ²"]
        } else {
            vec!["a₀", "a₁", "c₀", "c₁", "Σ₀₀", "Σ₁₁", "Σ₀₁"]
        }
    }

    fn data(&self, size: usize, rng: &mut dyn RngCore) -> Result<(Tensor, Tensor)> {
        let dim = self.c.elem_count();
        let draw = |_| {
            let x = rng.random_range(-1.0..1.0);
            let e: [f64; 2] = [rng.sample(StandardNormal), rng.sample(StandardNormal)];
            let noise = |d: usize| Self::C[d][0] * e[0] + Self::C[d][1] * e[1];
            (x, (0..dim).map(|d| Self::SLOPE[d] * x + Self::OFFSET[d] + noise(d)).collect())
        };
        batch(&(0..size).map(draw).collect::<Vec<_>>())
    }

    fn variables(&self) -> Vec<&Var> {
        vec![&self.a, &self.c, &self.w]
    }

    fn parameters(&self) -> Vec<f64> {
        let covariance = match flat(&self.w)[..] {
            [w] => vec![w.powi(-2)],
            [w00, w01, w10, w11] => {
                // (W Wᵀ)⁻¹ by its cofactors.
                let [p, q, r] = [w00 * w00 + w01 * w01, w10 * w10 + w11 * w11, w00 * w10 + w01 * w11];
                let determinant = p * q - r * r;
                vec![q / determinant, p / determinant, -r / determinant]
            }
            _ => unreachable!(),
        };
        [flat(&self.a), flat(&self.c), covariance].concat()
    }
}

/// f = log [ w N(y; m g(x), s²) + (1 − w) N(y; −m g(x), s²) ] + level, `g(x) = 1 + x/2`.
pub struct Bimodal {
    m: Var,
    logit: Var,
    log_s: Var,
}

impl Bimodal {
    const M: f64 = 1.0;
    const W: f64 = 0.7;
    const VARIANCE: f64 = 0.16;

    pub fn new() -> Self {
        Self { m: var(&[0.7], 1), logit: var(&[0.0], 1), log_s: var(&[-0.5], 1) }
    }

    /// The parameters of the data after noise of this variance.
    pub fn expected(noise: f64) -> [f64; 3] {
        [Self::M, Self::W, Self::VARIANCE + noise]
    }

    /// The parts' logarithms and their slopes at y (B, M, 1), as (B, M, 2).
    fn parts(&self, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
        let mean = (x.affine(0.5, 1.0)?.broadcast_mul(&self.m))?; // (B, 1, 1)
        let offset = y.broadcast_sub(&Tensor::cat(&[&mean, &mean.neg()?], 2)?)?;
        let precision = (self.log_s.as_tensor() * -2.0)?.exp()?;
        let slopes = offset.broadcast_mul(&precision)?.neg()?;
        let log_w = log_softmax(&Tensor::cat(&[self.logit.as_tensor(), &self.logit.zeros_like()?], 0)?, 0)?;
        let log_volume = (self.log_s.as_tensor() + 0.5 * std::f64::consts::TAU.ln())?;
        let f = (offset.sqr()?.broadcast_mul(&precision)? * -0.5)?.broadcast_sub(&log_volume)?;
        Ok((f.broadcast_add(&log_w)?, slopes))
    }
}

impl EnergyModel for Bimodal {
    type Features = Tensor;

    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok(log_sum_exp(&self.parts(x, y)?.0, 2)?.broadcast_add(&level(x)?)?)
    }

    fn derivatives_along(
        &self,
        x: &Tensor,
        y: &Tensor,
        direction: &Tensor,
        _: Order,
    ) -> Result<DirectionalDerivatives> {
        let (parts, slopes) = self.parts(x, y)?;
        let log_p = log_sum_exp(&parts, 2)?;
        let share = parts.broadcast_sub(&log_p.unsqueeze(2)?)?.exp()?;
        let slope = (&share * &slopes)?.sum(2)?;
        let precision = (self.log_s.as_tensor() * -2.0)?.exp()?;
        let curvature = ((share * slopes.sqr()?)?.sum(2)? - slope.sqr()?)?.broadcast_sub(&precision)?;
        let v = direction.squeeze(2)?;
        Ok(DirectionalDerivatives {
            value: log_p.broadcast_add(&level(x)?)?,
            first: (slope * &v)?,
            second: Some((curvature * v.sqr()?)?),
        })
    }
}

impl Family for Bimodal {
    fn names(&self) -> Vec<&'static str> {
        vec!["m", "w", "s²"]
    }

    fn data(&self, size: usize, rng: &mut dyn RngCore) -> Result<(Tensor, Tensor)> {
        let draw = |_| {
            let x: f64 = rng.random_range(-1.0..1.0);
            let sign = if rng.random_bool(Self::W) { 1.0 } else { -1.0 };
            let noise = Self::VARIANCE.sqrt() * rng.sample::<f64, _>(StandardNormal);
            (x, vec![sign * Self::M * (1.0 + 0.5 * x) + noise])
        };
        batch(&(0..size).map(draw).collect::<Vec<_>>())
    }

    fn variables(&self) -> Vec<&Var> {
        vec![&self.m, &self.logit, &self.log_s]
    }

    fn parameters(&self) -> Vec<f64> {
        let [m, logit, log_s] = [&self.m, &self.logit, &self.log_s].map(|v| flat(v)[0]);
        vec![m, 1.0 / (1.0 + (-logit).exp()), (2.0 * log_s).exp()]
    }
}
