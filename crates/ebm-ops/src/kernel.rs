//! From kernels on slices to candle's operations.
//!
//! An operation is a [`Kernel`]: the shape of its result, a function from the numbers of its arguments to the numbers of the
//! result, on the CPU and perhaps on a GPU, and its gradients. This file has the rest of a candle operation: the choice of
//! the element type, contiguous arguments, and errors that name the operation. [`super::graph`] has the operations of
//! candle's graph.

use std::ops::Deref;

use candle_core::backend::BackendStorage;
use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, DType, Device, Layout, Result, Shape, Storage, Tensor, WithDType, bail};

use super::float::Float;
pub(crate) use super::graph::Apply;
use super::storage::elements;

/// Tensor on the CPU.
pub(crate) type Argument<'a> = (&'a CpuStorage, &'a Layout);

/// Gradient in each of N arguments, where it is wanted.
pub(crate) type Gradients<const N: usize> = Result<[Option<Tensor>; N]>;

/// Operation on N tensors. An operation with an optional last argument implements this trait for any N.
pub(crate) trait Kernel<const N: usize>: Sized + Sync {
    /// Name in errors.
    const NAME: &'static str;
    /// Whether arguments may have any strides. Otherwise they are made contiguous first.
    const STRIDED: bool = false;

    /// Returns the shape of the result. The default is the shape of the first argument.
    fn shape(&self, arguments: [&Shape; N]) -> Result<Shape> {
        Ok(arguments[0].clone())
    }

    /// Computes the numbers of the result from contiguous arguments. Arguments and result have one type.
    fn host<T: Float>(&self, _: [&[T]; N]) -> Result<Vec<T>> {
        bail!("{} runs on a GPU only", Self::NAME)
    }

    /// Computes the storage of the result. The default calls [`host`](Self::host).
    fn cpu(&self, arguments: [Argument<'_>; N]) -> Result<CpuStorage> {
        by_type!(Self::NAME, arguments, |all| self.host(all)?)
    }

    /// Computes the storage of the result on a GPU.
    #[cfg(feature = "cuda")]
    fn cuda(&self, _: [crate::cuda::Argument<'_>; N]) -> crate::cuda::Made {
        bail!("{} runs on the CPU only", Self::NAME)
    }

    /// Returns the gradients in the arguments that are tracked, from the gradient in the result.
    fn gradients(&self, _: [&Tensor; N], _result: &Tensor, _grad: &Tensor) -> Gradients<N> {
        Err(candle_core::Error::BackwardNotSupported { op: Self::NAME }.bt())
    }

    /// Applies the operation outside any graph, for any number of arguments.
    fn run(&self, arguments: [&Tensor; N]) -> Result<Tensor> {
        let arguments = self.in_order(arguments)?;
        let (storage, shape) = self.compute(arguments.each_ref())?;
        Ok(Tensor::from_storage(storage, shape, BackpropOp::none(), false))
    }

    /// Computes the result of arguments that are [`in_order`](Self::in_order).
    fn compute(&self, arguments: [&Tensor; N]) -> Result<(Storage, Shape)> {
        let shape = self.shape(arguments.map(|argument| argument.shape()))?;
        let guards = arguments.map(Tensor::storage_and_layout);
        if let Some(all) =
            all(&guards, |storage| if let Storage::Cpu(storage) = storage { Some(storage) } else { None })
        {
            return Ok((Storage::Cpu(on_pool(all, || self.cpu(all))?), shape));
        }
        #[cfg(feature = "cuda")]
        if let Some(all) =
            all(&guards, |storage| if let Storage::Cuda(storage) = storage { Some(storage) } else { None })
        {
            return Ok((Storage::Cuda(self.cuda(all)?), shape));
        }
        let devices: Vec<_> = guards.iter().map(|(storage, _)| storage.device().location()).collect();
        bail!("{}: there is no kernel for arguments on {devices:?}", Self::NAME)
    }

    /// Returns the arguments, contiguous if the operation needs this.
    fn in_order(&self, arguments: [&Tensor; N]) -> Result<[Tensor; N]> {
        if Self::STRIDED { Ok(arguments.map(Tensor::clone)) } else { contiguous(arguments) }
    }
}

/// Numbers from which on an operation is worth a thread of the pool.
const LARGE: usize = 1 << 14;

/// Runs `f` on a thread of the pool if the arguments are large enough. A thread outside the pool would wait anew for each
/// part that it hands to the pool. A thread of the pool takes part in the work.
fn on_pool<R: Send, const N: usize>(arguments: [Argument<'_>; N], f: impl FnOnce() -> R + Send) -> R {
    let numbers: usize = arguments.iter().map(|(_, layout)| layout.shape().elem_count()).sum();
    if numbers < LARGE { f() } else { rayon::scope(|_| f()) }
}

fn contiguous<const N: usize>(tensors: [&Tensor; N]) -> Result<[Tensor; N]> {
    let mut tensors = tensors.map(Tensor::clone);
    for tensor in &mut tensors {
        *tensor = tensor.contiguous()?;
    }
    Ok(tensors)
}

/// Returns a tensor of this shape with the numbers that `f` computes from f32 tensors on the CPU, outside any graph.
pub(crate) fn computed<const N: usize>(
    arguments: [&Tensor; N],
    shape: impl Into<Shape>,
    f: impl FnOnce([&[f32]; N]) -> Result<Vec<f32>> + Send,
) -> Result<Tensor> {
    let arguments = contiguous(arguments)?;
    let guards = arguments.each_ref().map(Tensor::storage_and_layout);
    let found =
        all(&guards, |storage| if let Storage::Cpu(storage) = storage { Some(storage) } else { None });
    let Some(found) = found else { bail!("a layer with packed parameters computes on the CPU alone") };
    let numbers = on_pool(found, || f(slices(found)?))?;
    Tensor::from_vec(numbers, shape.into(), &Device::Cpu)
}

/// Returns the part of every storage that `of` finds, with its layout, or `None` if `of` finds nothing in one of them.
fn all<'a, G: Deref<Target = Storage>, S, const N: usize>(
    guards: &'a [(G, &'a Layout); N],
    of: impl Fn(&'a Storage) -> Option<&'a S>,
) -> Option<[(&'a S, &'a Layout); N]> {
    let found = guards.iter().map(|(storage, layout)| Some((of(storage)?, *layout)));
    found.collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// Returns the type of the first argument.
pub(crate) fn dtype<const N: usize>(arguments: &[Argument<'_>; N]) -> Option<DType> {
    arguments.first().map(|(storage, _)| storage.dtype())
}

/// Returns the numbers of contiguous arguments of one type.
pub(crate) fn slices<'a, T: Float, const N: usize>(arguments: [Argument<'a>; N]) -> Result<[&'a [T]; N]> {
    let mut slices = [&[][..]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(arguments) {
        *slice = elements(storage, layout)?;
    }
    Ok(slices)
}

/// Returns numbers as a storage.
pub(crate) fn storage<T: WithDType>(numbers: Vec<T>) -> CpuStorage {
    T::to_cpu_storage_owned(numbers)
}

/// Returns the error of an operation on a type that it has no kernel for.
pub(crate) fn unsupported<T>(name: &str, dtype: Option<DType>) -> Result<T> {
    bail!("{name}: expected tensors that are all f32 or all f64, got {dtype:?}")
}

/// Returns the storage of the vector `$result`, which is computed from `$slices`, the numbers of the contiguous `$arguments`.
/// Its type is the type of the first argument, f32 or f64.
macro_rules! by_type {
    ($name:expr, $arguments:expr, |$slices:pat_param| $result:expr) => {
        match $crate::kernel::dtype(&$arguments) {
            Some(candle_core::DType::F32) => {
                let $slices = $crate::kernel::slices::<f32, _>($arguments)?;
                Ok($crate::kernel::storage($result))
            }
            Some(candle_core::DType::F64) => {
                let $slices = $crate::kernel::slices::<f64, _>($arguments)?;
                Ok($crate::kernel::storage($result))
            }
            other => $crate::kernel::unsupported($name, other),
        }
    };
}
pub(crate) use by_type;
