//! Normalisation by the batch's statistics: fused on the CPU, composed of tensor operations elsewhere.

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Error, Layout, Result, Shape, Tensor, WithDType,
};
use rayon::prelude::*;

use crate::ops::storage::window;

/// y, and the batch's mean and biased variance, each (C). On any device, by autograd.
pub(super) fn composed(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (n, c) = (x.dim(0)?, x.dim(1)?);
    let flat = x.reshape((n, c, ()))?;
    let column = |v: &Tensor| v.reshape((1, c, 1));
    let mean = flat.mean_keepdim((0, 2))?;
    let centered = flat.broadcast_sub(&mean)?;
    let var = centered.sqr()?.mean_keepdim((0, 2))?;
    let scale = (column(weight)? / (&var + eps)?.sqrt()?)?;
    let y = centered.broadcast_mul(&scale)?.broadcast_add(&column(bias)?)?;
    Ok((y.reshape(x.shape())?, mean.detach().flatten_all()?, var.detach().flatten_all()?))
}

/// [`composed`] in two passes over `x` forwards and two backwards. CPU only.
pub(super) fn fused(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = x.contiguous()?;
    let moments = x.apply_op1_no_bwd(&Moments)?;
    let (mean, var) = (moments.get(0)?, moments.get(1)?);
    let op = Normalise { mean: mean.to_vec1()?, inv_std: (&var + eps)?.sqrt()?.recip()?.to_vec1()? };
    let y = x.apply_op3(&weight.contiguous()?, &bias.contiguous()?, op)?;
    Ok((y, mean, var))
}

/// The mean and the biased variance of each channel: (N, C, …) -> (2, C) in `f64`.
struct Moments;

/// y = γ (x − μ)·inv_std + β.
struct Normalise {
    mean: Vec<f64>,
    inv_std: Vec<f64>,
}

/// For x and the gradient g of y: (Σ g, Σ g·x̂) of each channel, (2, C) in `f64`.
struct GradSums<'a>(&'a Normalise);

/// coefficients (p, q, r) of each channel: p·g + q·x + r.
struct Combine(Vec<[f64; 3]>);

impl CustomOp1 for Moments {
    fn name(&self) -> &'static str {
        "batch-norm-moments"
    }

    fn cpu_fwd(&self, x: &CpuStorage, l: &Layout) -> Result<(CpuStorage, Shape)> {
        fn run<T: WithDType>(x: &[T], map: Map) -> Vec<f64> {
            let count = (map.n * map.plane) as f64;
            map.reduce(|c| {
                let mean = map.sum(c, x, |v| v) / count;
                let var = map.sum(c, x, |v| (v - mean) * (v - mean)) / count;
                [mean, var]
            })
        }
        let map = Map::of(l)?;
        let values = match x {
            CpuStorage::F32(x) => run(window(x, l)?, map),
            CpuStorage::F64(x) => run(window(x, l)?, map),
            _ => return Err(unsupported()),
        };
        Ok((CpuStorage::F64(values), Shape::from((2, map.c))))
    }
}

impl CustomOp3 for Normalise {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        weight: &CpuStorage,
        lw: &Layout,
        bias: &CpuStorage,
        lb: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        fn run<T: WithDType>(op: &Normalise, x: &[T], weight: &[T], bias: &[T], map: Map) -> Vec<T> {
            map.planes(x, x, |c, x, _, y| {
                let scale = weight[c].to_f64() * op.inv_std[c];
                let shift = T::from_f64(bias[c].to_f64() - op.mean[c] * scale);
                let scale = T::from_f64(scale);
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = x * scale + shift);
            })
        }
        let map = Map::of(lx)?;
        let y = match (x, weight, bias) {
            (CpuStorage::F32(x), CpuStorage::F32(w), CpuStorage::F32(b)) => {
                CpuStorage::F32(run(self, window(x, lx)?, window(w, lw)?, window(b, lb)?, map))
            }
            (CpuStorage::F64(x), CpuStorage::F64(w), CpuStorage::F64(b)) => {
                CpuStorage::F64(run(self, window(x, lx)?, window(w, lw)?, window(b, lb)?, map))
            }
            _ => return Err(unsupported()),
        };
        Ok((y, lx.shape().clone()))
    }

    /// With x̂ = (x − μ)·inv_std and m values per channel:
    /// ∂β = Σg, ∂γ = Σ g·x̂, ∂x = γ·inv_std·(g − ∂β/m − x̂·∂γ/m).
    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let g = g.contiguous()?;
        let sums = x.apply_op2_no_bwd(&g, &GradSums(self))?;
        let (d_bias, d_weight) = (sums.get(0)?, sums.get(1)?);
        let d_x = if x.track_op() {
            let count = (x.elem_count() / self.mean.len()) as f64;
            let gamma = weight.to_dtype(DType::F64)?.to_vec1::<f64>()?;
            let sums = d_bias.to_vec1::<f64>()?.into_iter().zip(d_weight.to_vec1::<f64>()?);
            let coefficients = (sums.zip(gamma).zip(self.mean.iter().zip(&self.inv_std)))
                .map(|(((d_bias, d_weight), gamma), (mean, inv_std))| {
                    let p = gamma * inv_std;
                    let q = -p * inv_std * d_weight / count;
                    [p, q, -p * d_bias / count - q * mean]
                })
                .collect();
            Some(x.apply_op2_no_bwd(&g, &Combine(coefficients))?)
        } else {
            None
        };
        let d_weight = weight.track_op().then(|| d_weight.to_dtype(weight.dtype())).transpose()?;
        let d_bias = bias.track_op().then(|| d_bias.to_dtype(bias.dtype())).transpose()?;
        Ok((d_x, d_weight, d_bias))
    }
}

impl CustomOp2 for GradSums<'_> {
    fn name(&self) -> &'static str {
        "batch-norm-grad-sums"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        g: &CpuStorage,
        lg: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        fn run<T: WithDType>(op: &Normalise, x: &[T], g: &[T], map: Map) -> Vec<f64> {
            map.reduce(|c| {
                let sum = map.sum(c, g, |g| g);
                let products = map.sum2(c, x, g, |x, g| g * (x - op.mean[c]));
                [sum, products * op.inv_std[c]]
            })
        }
        let map = Map::of(lx)?;
        let values = match (x, g) {
            (CpuStorage::F32(x), CpuStorage::F32(g)) => run(self.0, window(x, lx)?, window(g, lg)?, map),
            (CpuStorage::F64(x), CpuStorage::F64(g)) => run(self.0, window(x, lx)?, window(g, lg)?, map),
            _ => return Err(unsupported()),
        };
        Ok((CpuStorage::F64(values), Shape::from((2, map.c))))
    }
}

impl CustomOp2 for Combine {
    fn name(&self) -> &'static str {
        "batch-norm-grad"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        g: &CpuStorage,
        lg: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        fn run<T: WithDType>(op: &Combine, x: &[T], g: &[T], map: Map) -> Vec<T> {
            map.planes(x, g, |c, x, g, y| {
                let [p, q, r] = op.0[c].map(T::from_f64);
                y.iter_mut().zip(x).zip(g).for_each(|((y, &x), &g)| *y = p * g + q * x + r);
            })
        }
        let map = Map::of(lx)?;
        let y = match (x, g) {
            (CpuStorage::F32(x), CpuStorage::F32(g)) => {
                CpuStorage::F32(run(self, window(x, lx)?, window(g, lg)?, map))
            }
            (CpuStorage::F64(x), CpuStorage::F64(g)) => {
                CpuStorage::F64(run(self, window(x, lx)?, window(g, lg)?, map))
            }
            _ => return Err(unsupported()),
        };
        Ok((y, lx.shape().clone()))
    }
}

/// The geometry of a contiguous (N, C, …).
#[derive(Clone, Copy)]
struct Map {
    n: usize,
    c: usize,
    plane: usize,
}

impl Map {
    fn of(layout: &Layout) -> Result<Self> {
        let dims = layout.dims();
        Ok(Self { n: dims[0], c: dims[1], plane: dims[2..].iter().product() })
    }

    /// Two numbers of each channel, as (2, C).
    fn reduce(self, channel: impl Fn(usize) -> [f64; 2] + Send + Sync) -> Vec<f64> {
        let pairs: Vec<[f64; 2]> = (0..self.c).into_par_iter().map(channel).collect();
        pairs.iter().map(|p| p[0]).chain(pairs.iter().map(|p| p[1])).collect()
    }

    fn sum<T: WithDType>(self, c: usize, x: &[T], f: impl Fn(f64) -> f64) -> f64 {
        self.sum2(c, x, x, |x, _| f(x))
    }

    /// Σ f(x, g) over channel `c`, in eight interleaved partial sums that the compiler can vectorise.
    fn sum2<T: WithDType>(self, c: usize, x: &[T], g: &[T], f: impl Fn(f64, f64) -> f64) -> f64 {
        let mut lanes = [0f64; 8];
        for n in 0..self.n {
            let range = (n * self.c + c) * self.plane..(n * self.c + c + 1) * self.plane;
            let (x, g) = (x[range.clone()].chunks_exact(8), g[range].chunks_exact(8));
            for (i, (x, g)) in x.remainder().iter().zip(g.remainder()).enumerate() {
                lanes[i] += f(x.to_f64(), g.to_f64());
            }
            for (x, g) in x.zip(g) {
                for i in 0..8 {
                    lanes[i] += f(x[i].to_f64(), g[i].to_f64());
                }
            }
        }
        lanes.iter().sum()
    }

    /// An output of the same shape, filled by `plane(channel, x, g, output)` for each (n, c) plane.
    fn planes<T: WithDType>(
        self,
        x: &[T],
        g: &[T],
        plane: impl Fn(usize, &[T], &[T], &mut [T]) + Sync,
    ) -> Vec<T> {
        let size = self.plane.max(1);
        let mut y = vec![T::from_f64(0.); x.len()];
        (y.par_chunks_mut(size).zip(x.par_chunks(size)).zip(g.par_chunks(size)).enumerate())
            // Several small planes to a task.
            .with_min_len((1usize << 14).div_ceil(size))
            .for_each(|(i, ((y, x), g))| plane(i % self.c, x, g, y));
        y
    }
}

fn unsupported() -> Error {
    Error::Msg("batch-norm: the tensors must all be f32 or all be f64".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    type Form = fn(&Tensor, &Tensor, &Tensor, f64) -> Result<(Tensor, Tensor, Tensor)>;

    fn wave(shape: &[usize], phase: f64) -> Tensor {
        let values: Vec<f64> =
            (0..shape.iter().product()).map(|i| (phase + i as f64 * 1.7).sin() + 0.3).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    fn assert_same(a: &Tensor, b: &Tensor) {
        let distance = (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap();
        assert!(distance.to_scalar::<f64>().unwrap() < 1e-12);
    }

    #[test]
    fn the_fused_and_the_composed_form_agree() {
        // Planes of 1, of less than eight, and of several times eight and a rest.
        for shape in [&[7, 3][..], &[2, 3, 5], &[2, 3, 5, 7]] {
            let inputs = [(shape, 0.), (&[3][..], 1.), (&[3][..], 2.)];
            let [x, weight, bias] =
                inputs.map(|(shape, phase)| Var::from_tensor(&wave(shape, phase)).unwrap());
            let run = |form: Form| {
                let (y, mean, var) = form(&x, &weight, &bias, 1e-3).unwrap();
                let loss = (&y * wave(shape, 3.)).unwrap().sum_all().unwrap();
                (y, mean, var, loss.backward().unwrap())
            };
            let (a, b) = (run(fused), run(composed));
            assert_same(&a.0, &b.0);
            assert_same(&a.1, &b.1);
            assert_same(&a.2, &b.2);
            for var in [&x, &weight, &bias] {
                assert_same(a.3.get(var).unwrap(), b.3.get(var).unwrap());
            }
        }
    }
}
