//! Models, proposals and helpers that several tests share.

use std::cell::{Cell, RefCell};

use candle_core::{Device, Tensor, Var, WithDType};
use ebm_core::{DirectionalDerivatives, EnergyModel, Order, Proposal, Result};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// f(x, y) = the closure at y (B, M, D); there is no x. All closures have one type, for which algorithms are compiled once.
pub struct Function<'a>(Closure<'a>);

type Closure<'a> = Box<dyn Fn(&Tensor) -> Result<Tensor> + 'a>;

impl<'a> Function<'a> {
    pub fn new(f: impl Fn(&Tensor) -> Result<Tensor> + 'a) -> Self {
        Self(Box::new(f))
    }
}

impl EnergyModel for Function<'_> {
    type Features = ();
    fn score(&self, (): &(), y: &Tensor) -> Result<Tensor> {
        (self.0)(y)
    }
}

/// The model inside, with the closure at y (B, M, D) and y_i (B, D) as the quality.
pub struct WithQuality<M, Q>(pub M, pub Q);

impl<M: EnergyModel, Q: Fn(&Tensor, &Tensor) -> Result<Tensor>> EnergyModel for WithQuality<M, Q> {
    type Features = M::Features;
    fn score(&self, features: &M::Features, y: &Tensor) -> Result<Tensor> {
        self.0.score(features, y)
    }
    fn quality(&self, _: &M::Features, y: &Tensor, y_i: &Tensor) -> Result<Tensor> {
        (self.1)(y, y_i)
    }
}

/// f is a given table (B, 1 + M), whatever y is.
pub struct Table;

impl EnergyModel for Table {
    type Features = Tensor;
    fn score(&self, table: &Tensor, _: &Tensor) -> Result<Tensor> {
        Ok(table.clone())
    }
}

/// log q is a given table (B, M); the samples are all zero.
pub struct TableProposal(pub Tensor);

impl Proposal for TableProposal {
    fn sample(&self, center: &Tensor, num_samples: usize, _: &mut dyn RngCore) -> Result<Tensor> {
        let (batch, dim) = center.dims2()?;
        Ok(Tensor::zeros((batch, num_samples, dim), center.dtype(), center.device())?)
    }
    fn log_prob(&self, _: &Tensor, _: &Tensor) -> Result<Tensor> {
        Ok(self.0.clone())
    }
}

/// Counts the evaluations of the model inside, those with a gradient apart.
pub struct Counted<M> {
    pub model: M,
    pub values: Cell<usize>,
    pub gradients: Cell<usize>,
}

impl<M> Counted<M> {
    pub fn new(model: M) -> Self {
        Self { model, values: Cell::new(0), gradients: Cell::new(0) }
    }
}

impl<M: EnergyModel> EnergyModel for Counted<M> {
    type Features = M::Features;
    fn score(&self, features: &M::Features, y: &Tensor) -> Result<Tensor> {
        self.values.set(self.values.get() + 1);
        self.model.score(features, y)
    }
    fn score_and_grad(&self, features: &M::Features, y: &Tensor) -> Result<(Tensor, Tensor)> {
        self.gradients.set(self.gradients.get() + 1);
        self.model.score_and_grad(features, y)
    }
}

/// Keeps the candidates that the model inside was given.
pub struct Recorded<M> {
    pub model: M,
    pub seen: RefCell<Vec<Tensor>>,
}

impl<M> Recorded<M> {
    pub fn new(model: M) -> Self {
        Self { model, seen: RefCell::default() }
    }

    fn record(&self, y: &Tensor) {
        self.seen.borrow_mut().push(y.detach());
    }
}

impl<M: EnergyModel> EnergyModel for Recorded<M> {
    type Features = M::Features;
    fn score(&self, features: &M::Features, y: &Tensor) -> Result<Tensor> {
        self.record(y);
        self.model.score(features, y)
    }
    fn score_and_grad(&self, features: &M::Features, y: &Tensor) -> Result<(Tensor, Tensor)> {
        self.record(y);
        self.model.score_and_grad(features, y)
    }
    fn derivatives_along(
        &self,
        features: &M::Features,
        y: &Tensor,
        direction: &Tensor,
        order: Order,
    ) -> Result<DirectionalDerivatives> {
        self.record(y);
        self.model.derivatives_along(features, y, direction, order)
    }
}

/// log N(y; mean, diag(sigma²)) + constant, as a model.
pub fn gaussian(mean: &'static [f64], sigma: &'static [f64], constant: f64) -> Function<'static> {
    let log_volume: f64 = sigma.iter().map(|s| s.ln() + 0.5 * std::f64::consts::TAU.ln()).sum();
    Function::new(move |y: &Tensor| {
        let of = |v: &[f64]| Tensor::new(v, y.device())?.to_dtype(y.dtype());
        let z = y.broadcast_sub(&of(mean)?)?.broadcast_div(&of(sigma)?)?;
        Ok(z.sqr()?.sum(2)?.affine(-0.5, constant - log_volume)?)
    })
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// (B, M, D) from B × M rows.
pub fn candidates<T: WithDType>(batch: usize, rows: &[&[T]]) -> Tensor {
    Tensor::from_vec(rows.concat(), (batch, rows.len() / batch, rows[0].len()), &Device::Cpu).unwrap()
}

pub fn flat(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(candle_core::DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

#[track_caller]
pub fn assert_close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (index, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "at {index}: {g}, expected {w}");
    }
}

/// The gradient of f, which reads `at`, by central differences.
pub fn central_differences(at: &Var, f: impl Fn() -> f64) -> Vec<f64> {
    let (shape, values) = (at.shape().clone(), flat(at));
    let step = 1e-5;
    let set = |values: &[f64]| at.set(&Tensor::from_slice(values, &shape, &Device::Cpu).unwrap()).unwrap();
    let slopes = (0..values.len()).map(|index| {
        let at = |delta: f64| {
            let mut moved = values.clone();
            moved[index] += delta;
            set(&moved);
            f()
        };
        (at(step) - at(-step)) / (2.0 * step)
    });
    let slopes = slopes.collect();
    set(&values);
    slopes
}
