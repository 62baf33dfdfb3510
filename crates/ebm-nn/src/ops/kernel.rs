//! From kernels on slices to candle's operations.
//!
//! An operation is a [`Kernel`]: the shape of its result, a function from its arguments' numbers to the
//! result's, on the CPU and perhaps on a GPU, and its gradients. What candle wants around that is here: the
//! traits `CustomOp1` to `CustomOp3`, the choice of the element type, contiguous arguments, and errors that
//! name the operation.

use std::ops::Deref;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::backend::BackendStorage;
use candle_core::op::BackpropOp;
use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Storage, Tensor, WithDType,
    bail,
};

use super::float::Float;
use super::storage::elements;

/// A tensor on the CPU.
pub(crate) type Argument<'a> = (&'a CpuStorage, &'a Layout);

/// An operation on N tensors. What takes an optional last argument is a kernel of any N.
pub(crate) trait Kernel<const N: usize>: Sized {
    /// Whether arguments may lie in any order; else they are made contiguous first.
    const STRIDED: bool = false;

    /// What errors call it.
    fn name(&self) -> &'static str;

    /// The shape of the result.
    fn shape(&self, arguments: [&Shape; N]) -> Result<Shape>;

    /// The numbers of the result, as a rule by [`by_type`].
    fn cpu(&self, _: [Argument<'_>; N]) -> Result<CpuStorage> {
        bail!("{} runs on a GPU only", self.name())
    }

    /// The same on a GPU.
    #[cfg(feature = "cuda")]
    fn cuda(&self, _: [crate::cuda::Argument<'_>; N]) -> Result<CudaStorage> {
        bail!("{} runs on the CPU only", self.name())
    }

    /// The gradients in the arguments that are tracked, from the one in the result.
    fn gradients(&self, _: [&Tensor; N], _result: &Tensor, _grad: &Tensor) -> Result<[Option<Tensor>; N]> {
        Err(candle_core::Error::BackwardNotSupported { op: self.name() }.bt())
    }

    /// The operation outside any graph, for any number of arguments.
    fn run(&self, arguments: [&Tensor; N]) -> Result<Tensor> {
        let arguments = self.in_order(arguments)?;
        let shape = self.shape(arguments.each_ref().map(|argument| argument.shape()))?;
        let guards = arguments.each_ref().map(Tensor::storage_and_layout);
        let storage = if let Some(all) = all(&guards, |storage| match storage {
            Storage::Cpu(storage) => Some(storage),
            _ => None,
        }) {
            Storage::Cpu(self.cpu(all)?)
        } else {
            self.elsewhere(&guards)?
        };
        Ok(Tensor::from_storage(storage, shape, BackpropOp::none(), false))
    }

    /// [`cuda`](Self::cuda) on the storages of [`run`](Self::run).
    fn elsewhere<G: Deref<Target = Storage>>(&self, guards: &[(G, &Layout); N]) -> Result<Storage> {
        #[cfg(feature = "cuda")]
        if let Some(all) = all(guards, |storage| match storage {
            Storage::Cuda(storage) => Some(storage),
            _ => None,
        }) {
            return Ok(Storage::Cuda(self.cuda(all)?));
        }
        let devices: Vec<_> = guards.iter().map(|(storage, _)| storage.device().location()).collect();
        bail!("{}: there is no kernel for arguments on {devices:?}", self.name())
    }

    /// The arguments, contiguous where they must be.
    fn in_order(&self, arguments: [&Tensor; N]) -> Result<[Tensor; N]> {
        let mut arguments = arguments.map(Tensor::clone);
        if !Self::STRIDED {
            for argument in &mut arguments {
                *argument = argument.contiguous()?;
            }
        }
        Ok(arguments)
    }
}

/// What `of` finds in all the storages, each with its layout.
fn all<'a, G: Deref<Target = Storage>, S, const N: usize>(
    guards: &'a [(G, &'a Layout); N],
    of: impl Fn(&'a Storage) -> Option<&'a S>,
) -> Option<[(&'a S, &'a Layout); N]> {
    let found = guards.iter().map(|(storage, layout)| Some((of(storage)?, *layout)));
    found.collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// A kernel as a part of the graph.
pub(crate) trait Apply<const N: usize>: Kernel<N> {
    /// The result, differentiable as [`Kernel::gradients`] says.
    fn apply(self, arguments: [&Tensor; N]) -> Result<Tensor>;
}

/// A kernel as candle's operation.
struct Op<K>(K);

impl<K> Op<K> {
    fn cpu<const N: usize>(&self, arguments: [Argument<'_>; N]) -> Result<(CpuStorage, Shape)>
    where
        K: Kernel<N>,
    {
        Ok((self.0.cpu(arguments)?, self.0.shape(arguments.map(|(_, layout)| layout.shape()))?))
    }

    #[cfg(feature = "cuda")]
    fn cuda<const N: usize>(&self, arguments: [crate::cuda::Argument<'_>; N]) -> Result<(CudaStorage, Shape)>
    where
        K: Kernel<N>,
    {
        Ok((self.0.cuda(arguments)?, self.0.shape(arguments.map(|(_, layout)| layout.shape()))?))
    }
}

/// A kernel of these arguments, each with its layout, as the operation of candle's that takes as many.
macro_rules! operation {
    (@tuple $a:ident) => { $a };
    (@tuple $($a:ident),+) => { ($($a),+) };
    ($count:literal: $op:ident, $apply:ident, $a:ident $la:ident $(, $b:ident $lb:ident)*; $gradients:ty) => {
        impl<K: Kernel<$count> + Send + Sync + 'static> Apply<$count> for K {
            fn apply(self, arguments: [&Tensor; $count]) -> Result<Tensor> {
                let [$a $(, $b)*] = self.in_order(arguments)?;
                $a.$apply($(&$b,)* Op(self))
            }
        }

        impl<K: Kernel<$count>> $op for Op<K> {
            fn name(&self) -> &'static str {
                self.0.name()
            }

            fn cpu_fwd(
                &self,
                $a: &CpuStorage,
                $la: &Layout,
                $($b: &CpuStorage, $lb: &Layout,)*
            ) -> Result<(CpuStorage, Shape)> {
                self.cpu([($a, $la) $(, ($b, $lb))*])
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(
                &self,
                $a: &CudaStorage,
                $la: &Layout,
                $($b: &CudaStorage, $lb: &Layout,)*
            ) -> Result<(CudaStorage, Shape)> {
                self.cuda([($a, $la) $(, ($b, $lb))*])
            }

            fn bwd(&self, $a: &Tensor, $($b: &Tensor,)* result: &Tensor, grad: &Tensor) -> Result<$gradients> {
                let [$a $(, $b)*] = self.0.gradients([$a $(, $b)*], result, grad)?;
                Ok(operation!(@tuple $a $(, $b)*))
            }
        }
    };
}

operation!(1: CustomOp1, apply_op1, a la; Option<Tensor>);
operation!(2: CustomOp2, apply_op2, a la, b lb; (Option<Tensor>, Option<Tensor>));
operation!(3: CustomOp3, apply_op3, a la, b lb, c lc; (Option<Tensor>, Option<Tensor>, Option<Tensor>));

/// The type of the first argument.
pub(crate) fn dtype<const N: usize>(arguments: &[Argument<'_>; N]) -> Option<DType> {
    arguments.first().map(|(storage, _)| storage.dtype())
}

/// The numbers of contiguous arguments of one type.
pub(crate) fn slices<'a, T: Float, const N: usize>(arguments: [Argument<'a>; N]) -> Result<[&'a [T]; N]> {
    let mut slices = [&[][..]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(arguments) {
        *slice = elements(storage, layout)?;
    }
    Ok(slices)
}

/// Numbers as a storage.
pub(crate) fn storage<T: WithDType>(numbers: Vec<T>) -> CpuStorage {
    T::to_cpu_storage_owned(numbers)
}

/// The error of an operation on another type.
pub(crate) fn unsupported<T>(name: &str, dtype: Option<DType>) -> Result<T> {
    bail!("{name}: expected tensors that are all f32 or all f64, got {dtype:?}")
}

/// The storage of `$result`, a vector that is made of the numbers of the contiguous `$arguments`, `$slices`:
/// of the type that the first of them has, f32 or f64.
macro_rules! by_type {
    ($name:expr, $arguments:expr, |$slices:pat_param| $result:expr) => {
        match $crate::ops::kernel::dtype(&$arguments) {
            Some(candle_core::DType::F32) => {
                let $slices = $crate::ops::kernel::slices::<f32, _>($arguments)?;
                Ok($crate::ops::kernel::storage($result))
            }
            Some(candle_core::DType::F64) => {
                let $slices = $crate::ops::kernel::slices::<f64, _>($arguments)?;
                Ok($crate::ops::kernel::storage($result))
            }
            other => $crate::ops::kernel::unsupported($name, other),
        }
    };
}
pub(crate) use by_type;
