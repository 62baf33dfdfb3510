//! In-place elementwise updates in one pass over memory.

use std::cell::Cell;

use candle_core::{
    CpuStorage, DType, Error, InplaceOp1, InplaceOp2, InplaceOp3, Layout, Result, Storage, Tensor, Var,
    WithDType,
};
use rayon::prelude::*;

#[cfg(feature = "cuda")]
use crate::cuda;
use crate::storage::{window, window_mut};

/// Elements per task, enough to pay for handing it out.
const CHUNK: usize = 1 << 14;

/// Update `x ← keep·x + add·d`, where `d = g + decay·p`, or its square.
pub(super) struct Blend {
    pub keep: f64,
    pub add: f64,
    pub decay: f64,
    pub square: bool,
}

/// Update `v ← keep·v + g + decay·p`, then `p ← p − rate·v`, in one pass.
pub(super) struct Momentum {
    pub keep: f64,
    pub decay: f64,
    pub rate: f64,
}

/// Update `p ← p − rate·m / (√v / root + eps)`.
pub(super) struct SubtractRatio {
    pub rate: f64,
    pub root: f64,
    pub eps: f64,
}

/// Returns Σ g² of a gradient on another device, as a tensor without dimensions on that device.
pub(super) fn sum_of_squares_there(g: &Tensor) -> Result<Tensor> {
    // f32 squares overflow above 1.8e19, where a gradient is useless anyway.
    let g = if g.dtype() == DType::F64 { g.detach() } else { g.detach().to_dtype(DType::F32)? };
    g.sqr()?.sum_all()
}

/// Returns Σ g² in `f64`, on the CPU.
pub(super) fn sum_of_squares(g: &Tensor) -> Result<f64> {
    let g = g.detach().flatten_all()?.contiguous()?;
    let (storage, layout) = g.storage_and_layout();
    // Partial sums of fixed chunks are added in order, so the result does not depend on the threads.
    match &*storage {
        Storage::Cpu(CpuStorage::F32(x)) => Ok(chunk_sums(window(x, layout)?, f64::from)),
        Storage::Cpu(CpuStorage::F64(x)) => Ok(chunk_sums(window(x, layout)?, |v| v)),
        _ => g.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar::<f64>(),
    }
}

fn chunk_sums<T: Copy + Sync>(x: &[T], wide: impl Fn(T) -> f64 + Sync) -> f64 {
    let squares = |chunk: &[T]| chunk.iter().map(|&v| wide(v) * wide(v)).sum::<f64>();
    x.par_chunks(CHUNK).map(squares).collect::<Vec<f64>>().iter().sum()
}

impl Blend {
    pub(super) fn run(&self, x: &Var, g: &Tensor, p: &Var) -> Result<()> {
        x.inplace_op3(g, p, self)
    }

    fn update<T: WithDType>(&self, x: &mut [T], g: &[T], p: &[T]) {
        let (keep, add, decay) = (T::from_f64(self.keep), T::from_f64(self.add), T::from_f64(self.decay));
        if self.square {
            zip3(x, g, p, |x, g, p| {
                let d = g + decay * p;
                keep * x + add * d * d
            });
        } else {
            zip3(x, g, p, |x, g, p| keep * x + add * (g + decay * p));
        }
    }
}

impl Momentum {
    pub(super) fn run(&self, p: &Var, v: &Var, g: &Tensor) -> Result<()> {
        if !p.device().is_cpu() {
            Blend { keep: self.keep, add: 1., decay: self.decay, square: false }.run(v, g, p)?;
            return Blend { keep: 1., add: -self.rate, decay: 0., square: false }.run(p, v, v);
        }
        p.inplace_op2(g, &OfParameter { rule: self, velocity: v })
    }

    fn update<T: WithDType>(&self, p: &mut [T], v: &mut [T], g: &[T]) {
        let [keep, decay, rate] = [self.keep, self.decay, self.rate].map(T::from_f64);
        p.par_chunks_mut(CHUNK).zip(v.par_chunks_mut(CHUNK)).zip(g.par_chunks(CHUNK)).for_each(
            |((p, v), g)| {
                for ((p, v), &g) in p.iter_mut().zip(v).zip(g) {
                    *v = keep * *v + (g + decay * *p);
                    *p -= rate * *v;
                }
            },
        );
    }
}

/// [`Momentum`] of a parameter and its gradient. The operation itself takes the velocity.
struct OfParameter<'a> {
    rule: &'a Momentum,
    velocity: &'a Var,
}

impl InplaceOp2 for OfParameter<'_> {
    fn name(&self) -> &'static str {
        "optim-momentum"
    }

    fn cpu_fwd(&self, s1: &mut CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<()> {
        let update = |s3: &mut CpuStorage, l3: &Layout| {
            match (s1, s2, s3) {
                (CpuStorage::F32(p), CpuStorage::F32(g), CpuStorage::F32(v)) => {
                    self.rule.update(window_mut(p, l1)?, window_mut(v, l3)?, window(g, l2)?)
                }
                (CpuStorage::F64(p), CpuStorage::F64(g), CpuStorage::F64(v)) => {
                    self.rule.update(window_mut(p, l1)?, window_mut(v, l3)?, window(g, l2)?)
                }
                _ => return Err(unsupported("optim-momentum")),
            }
            Ok(())
        };
        self.velocity.inplace_op1(&ApplyOnce(Cell::new(Some(update))))
    }
}

/// Function that is applied once to a tensor's numbers.
struct ApplyOnce<F>(Cell<Option<F>>);

impl<F: FnOnce(&mut CpuStorage, &Layout) -> Result<()>> InplaceOp1 for ApplyOnce<F> {
    fn name(&self) -> &'static str {
        "optim-momentum"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        self.0.take().map_or(Ok(()), |update| update(storage, layout))
    }
}

impl SubtractRatio {
    pub(super) fn run(&self, p: &Var, m: &Var, v: &Var) -> Result<()> {
        p.inplace_op3(m, v, self)
    }

    fn update<T: WithDType>(&self, p: &mut [T], m: &[T], v: &[T]) {
        let (rate, root, eps) = (T::from_f64(self.rate), T::from_f64(self.root), T::from_f64(self.eps));
        zip3(p, m, v, |p, m, v| p - rate * m / (T::from_f64(v.to_f64().sqrt()) / root + eps));
    }
}

fn zip3<T: WithDType>(x: &mut [T], a: &[T], b: &[T], f: impl Fn(T, T, T) -> T + Sync) {
    x.par_chunks_mut(CHUNK).zip(a.par_chunks(CHUNK)).zip(b.par_chunks(CHUNK)).for_each(|((x, a), b)| {
        for ((x, &a), &b) in x.iter_mut().zip(a).zip(b) {
            *x = f(*x, a, b);
        }
    });
}

/// Implements candle's in-place operation for `$op`. On a GPU it is the kernel `$kernel` with these fields as numbers of its
/// type.
macro_rules! inplace_op3 {
    ($op:ty, $kernel:literal, $($field:ident: $number:ident),*) => {
        impl InplaceOp3 for $op {
            fn name(&self) -> &'static str {
                concat!("optim-", $kernel)
            }

            fn cpu_fwd(
                &self,
                s1: &mut CpuStorage,
                l1: &Layout,
                s2: &CpuStorage,
                l2: &Layout,
                s3: &CpuStorage,
                l3: &Layout,
            ) -> Result<()> {
                match (s1, s2, s3) {
                    (CpuStorage::F32(x), CpuStorage::F32(a), CpuStorage::F32(b)) => {
                        self.update(window_mut(x, l1)?, window(a, l2)?, window(b, l3)?)
                    }
                    (CpuStorage::F64(x), CpuStorage::F64(a), CpuStorage::F64(b)) => {
                        self.update(window_mut(x, l1)?, window(a, l2)?, window(b, l3)?)
                    }
                    _ => return Err(unsupported(self.name())),
                }
                Ok(())
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(
                &self,
                s1: &mut candle_core::CudaStorage,
                l1: &Layout,
                s2: &candle_core::CudaStorage,
                l2: &Layout,
                s3: &candle_core::CudaStorage,
                l3: &Layout,
            ) -> Result<()> {
                let (device, len) = (cuda::device((s2, l2)), l1.shape().elem_count());
                $(let $field = $number::from(self.$field);)*
                cuda::by_type!((s2, l2), self.name(), T => {
                    let (a, b) = (cuda::elements::<T>((s2, l2))?, cuda::elements::<T>((s3, l3))?);
                    let mut x = cuda::elements_mut::<T>(s1, l1)?;
                    cuda::launch!(device, UPDATES::$kernel, T, len; &mut x, &a, &b, $(&$field),*);
                    Ok(())
                })
            }
        }
    };
}

inplace_op3!(Blend, "blend", keep: f64, add: f64, decay: f64, square: i32);
inplace_op3!(SubtractRatio, "subtract_ratio", rate: f64, root: f64, eps: f64);

fn unsupported(op: &'static str) -> Error {
    Error::Msg(format!("{op}: the operands must all be f32 or all be f64"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::devices;
    use candle_core::Device;

    fn var(seed: f64, dtype: DType, device: &Device) -> Var {
        // More than one chunk, and not a multiple of it.
        let values: Vec<f64> = (0..CHUNK + 37).map(|i| (seed + i as f64 * 0.37).sin().abs() + 0.1).collect();
        let tensor = Tensor::from_vec(values, CHUNK + 37, device).unwrap();
        Var::from_tensor(&tensor.to_dtype(dtype).unwrap()).unwrap()
    }

    fn distance(a: &Var, b: &Var) -> f64 {
        let difference = (a.as_detached_tensor() - b.as_detached_tensor()).unwrap().abs().unwrap();
        difference.max_all().unwrap().to_dtype(DType::F64).unwrap().to_scalar().unwrap()
    }

    /// Computes the updates as tensor operations.
    fn composed(op: &Blend, x: &Var, g: &Tensor, p: &Var) -> Result<()> {
        let d = (g + (p.as_detached_tensor() * op.decay)?)?;
        let d = if op.square { d.sqr()? } else { d };
        x.set(&((x.as_detached_tensor() * op.keep)? + (d * op.add)?)?)
    }

    fn composed_ratio(op: &SubtractRatio, p: &Var, m: &Var, v: &Var) -> Result<()> {
        let below = ((v.as_detached_tensor().sqrt()? / op.root)? + op.eps)?;
        p.set(&(p.as_detached_tensor() - ((m.as_detached_tensor() / below)? * op.rate)?)?)
    }

    #[test]
    fn the_fused_and_the_composed_updates_agree() {
        let types = [(DType::F32, 1e-6), (DType::F64, 1e-14)];
        for (device, (dtype, tolerance)) in
            devices().into_iter().flat_map(|device| types.map(|pair| (device.clone(), pair)))
        {
            let var = |seed, dtype| var(seed, dtype, &device);
            let (g, m, v) = (var(2., dtype), var(3., dtype), var(4., dtype));
            for (keep, add, decay, square) in
                [(0.9, 0.3, 0.01, false), (0.9, 0.3, 0.01, true), (1., -0.3, 0., false)]
            {
                let blend = Blend { keep, add, decay, square };
                let (a, b) = (var(1., dtype), var(1., dtype));
                blend.run(&a, &g, &m).unwrap();
                composed(&blend, &b, &g, &m).unwrap();
                assert!(distance(&a, &b) < tolerance && distance(&a, &var(1., dtype)) > 0.1);
            }
            let (a, b) = (var(1., dtype), var(1., dtype));
            let ratio = SubtractRatio { rate: 0.2, root: 0.5, eps: 1e-3 };
            ratio.run(&a, &m, &v).unwrap();
            composed_ratio(&ratio, &b, &m, &v).unwrap();
            assert!(distance(&a, &b) < 3. * tolerance && distance(&a, &var(1., dtype)) > 0.1);
        }
    }

    #[test]
    fn mixed_types_are_refused() {
        let (a, b) = (var(1., DType::F32, &Device::Cpu), var(1., DType::F64, &Device::Cpu));
        assert!(Blend { keep: 1., add: -1., decay: 0., square: false }.run(&a, &b, &b).is_err());
    }
}
