//! A small smooth network, the same as in `golden/objectives.py`.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::{DirectionalDerivatives, EnergyModel, Order, Result};

/// f(x, y) = v · tanh([x, y] W + b) + level, three hidden units, and log Z estimated as u · x + level: x (B,
/// 1, 2), y (B, M, 2).
pub struct Network {
    pub w: Var,
    pub b: Var,
    pub v: Var,
    pub u: Var,
    pub level: f64,
    /// Whether the estimate of log Z has the level too.
    pub normalizer_follows: bool,
}

impl Network {
    pub fn new() -> Self {
        Self::of(DType::F64, 0.0)
    }

    pub fn of(dtype: DType, level: f64) -> Self {
        let var = |shape: (usize, usize), phase: f64| {
            let values: Vec<f64> = (0..shape.0 * shape.1).map(|i| (0.7 * i as f64 + phase).sin()).collect();
            let values = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
            Var::from_tensor(&values.to_dtype(dtype).unwrap()).unwrap()
        };
        let [w, b] = [var((4, 3), 0.3), var((1, 3), 1.0)];
        let [v, u] = [var((3, 1), 2.0), var((2, 1), 0.5)];
        Self { w, b, v, u, level, normalizer_follows: true }
    }

    /// Two inputs.
    pub fn x(dtype: DType) -> Tensor {
        let x = Tensor::new(&[[[0.4, -0.6]], [[1.2, 0.1]]], &Device::Cpu).unwrap();
        x.to_dtype(dtype).unwrap()
    }

    /// Their targets.
    pub fn y(dtype: DType) -> Tensor {
        Tensor::new(&[[0.3, -0.2], [-1.0, 0.8]], &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    }

    /// W, b and v, on which f depends.
    pub fn parameters(&self) -> [&Var; 3] {
        [&self.w, &self.b, &self.v]
    }

    fn hidden(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (batch, count, _) = y.dims3()?;
        let x = x.broadcast_as((batch, count, 2))?;
        let input = Tensor::cat(&[&x, y], 2)?.reshape((batch * count, 4))?;
        Ok(input.matmul(&self.w)?.broadcast_add(&self.b)?.tanh()?)
    }

    fn output(&self, hidden: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (batch, count, _) = y.dims3()?;
        Ok(hidden.matmul(&self.v)?.reshape((batch, count))?)
    }
}

impl EnergyModel for Network {
    type Features = Tensor;

    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((self.output(&self.hidden(x, y)?, y)? + self.level)?)
    }

    fn quality(&self, _: &Tensor, y: &Tensor, y_i: &Tensor) -> Result<Tensor> {
        Ok(y.broadcast_sub(&y_i.unsqueeze(1)?)?.sqr()?.sum(2)?.neg()?.exp()?)
    }
    fn derivatives_along(
        &self,
        x: &Tensor,
        y: &Tensor,
        direction: &Tensor,
        order: Order,
    ) -> Result<DirectionalDerivatives> {
        let (batch, count, dim) = y.dims3()?;
        let h = self.hidden(x, y)?;
        let rise = direction.reshape((batch * count, dim))?.matmul(&self.w.narrow(0, 2, 2)?)?;
        let slope = (h.sqr()?.neg()? + 1.0)?;
        let first = self.output(&(&slope * &rise)?, y)?;
        let second = match order {
            Order::First => None,
            Order::Second => Some(self.output(&((&h * slope)? * rise.sqr()?)?.affine(-2.0, 0.0)?, y)?),
        };
        Ok(DirectionalDerivatives { value: self.score(x, y)?, first, second })
    }

    fn log_normalizer(&self, x: &Tensor) -> Result<Tensor> {
        let level = if self.normalizer_follows { self.level } else { 0.0 };
        Ok((x.squeeze(1)?.matmul(&self.u)?.squeeze(1)? + level)?)
    }
}
