//! The convolution by cuDNN of maps with the channels innermost, with the gradients in x and w.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaView};
use candle_core::cuda_backend::{CudaDevice, DeviceId, gemm_reduced_precision_f32};
use candle_core::{CudaStorage, DType, Layout, Result, Shape, Tensor, WithDType};
use cudarc::cudnn::sys::{
    cudnnConvolutionBwdDataAlgo_t as DataAlgorithm, cudnnConvolutionBwdFilterAlgo_t as FilterAlgorithm,
    cudnnConvolutionFwdAlgo_t as ForwardAlgorithm, cudnnConvolutionMode_t, cudnnMathType_t,
    cudnnTensorFormat_t,
};
use cudarc::cudnn::{
    ConvBackwardData, ConvBackwardFilter, ConvDescriptor, ConvForward, Cudnn, CudnnDataType, CudnnError,
    FilterDescriptor, TensorDescriptor,
};

use super::geometry::Geometry;
use crate::cuda::{Argument, Element, Made, elements, launch, sizes, unsupported, unwritten};
use crate::kernel::{Apply, Gradients, Kernel};

/// Most bytes of scratch memory for an algorithm. Instead of one that needs more, one that needs little or none is used.
const WORKSPACE: usize = 1 << 30;

/// Computes x (N, H, W, C), w (O, C, kh, kw) -> (N, oh, ow, O), differentiable in both. x and y are f32, or x and y are bf16
/// and w is f32.
///
/// Products of f32 use TF32 if the precision allows it and the GPU has it. Sums are f32, also for bf16.
pub(super) fn conv2d(x: &Tensor, w: &Tensor, geometry: Geometry) -> crate::Result<Tensor> {
    let w = if is_innermost(w.layout())? { w.clone() } else { w.contiguous()? };
    Ok(Conv2d { geometry, role: Role::Forward }.apply([&x.contiguous()?, &w])?)
}

/// Returns filters (O, C, kh, kw) that are stored as (O, kh, kw, C), the order in which cuDNN reads them.
pub(crate) fn innermost(w: &Tensor) -> crate::Result<Tensor> {
    Ok(w.permute((0, 2, 3, 1))?.contiguous()?.permute((0, 3, 1, 2))?)
}

fn is_innermost(w: &Layout) -> Result<bool> {
    Ok(w.permute(&[0, 2, 3, 1])?.is_contiguous())
}

/// The tensor of a convolution that is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// (x, w) -> y.
    Forward,
    /// (w, dy) -> dx.
    Data,
    /// (x, dy) -> dw.
    Filter,
}

#[derive(Clone, Copy)]
struct Conv2d {
    geometry: Geometry,
    role: Role,
}

#[derive(Clone, Copy)]
enum Algorithm {
    Forward(ForwardAlgorithm),
    Data(DataAlgorithm),
    Filter(FilterAlgorithm),
}

/// Key of the choice of an algorithm. The last field says whether f32 may be multiplied as TF32.
#[derive(PartialEq, Eq, Hash)]
struct Problem(DeviceId, Geometry, Role, DType, bool);

thread_local! {
    /// cuDNN's handles of this thread. A handle belongs to one thread.
    static HANDLES: RefCell<HashMap<DeviceId, Arc<Cudnn>>> = RefCell::default();
    /// Algorithm of each problem, and the bytes of scratch memory that it needs.
    static CHOICES: RefCell<HashMap<Problem, (Algorithm, usize)>> = RefCell::default();
}

fn failed(error: CudnnError) -> candle_core::Error {
    candle_core::Error::Msg(format!("conv2d: cuDNN failed: {error:?}"))
}

fn handle(device: &CudaDevice) -> Result<Arc<Cudnn>> {
    HANDLES.with_borrow_mut(|handles| {
        if let Some(handle) = handles.get(&device.id()) {
            return Ok(handle.clone());
        }
        let handle = Cudnn::new(device.cuda_stream()).map_err(failed)?;
        handles.insert(device.id(), handle.clone());
        Ok(handle)
    })
}

/// A problem in cuDNN's terms. Sums are of type T::Wide.
struct Described<T: Element> {
    conv: ConvDescriptor<T::Wide>,
    x: TensorDescriptor<T>,
    w: FilterDescriptor<T>,
    y: TensorDescriptor<T>,
}

impl<T: Element + CudnnDataType> Described<T>
where
    T::Wide: CudnnDataType,
{
    fn new(cudnn: &Arc<Cudnn>, g: &Geometry) -> Result<Self> {
        let format = cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;
        let [out_h, out_w] = g.output();
        let pair = |[a, b]: [usize; 2]| [a as i32, b as i32];
        let four = |sizes: [usize; 4]| sizes.map(|size| size as i32);
        let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let describe = || {
            let mut conv =
                cudnn.create_conv2d::<T::Wide>(pair(g.padding), pair([g.stride; 2]), [1, 1], mode)?;
            conv.set_math_type(match T::DTYPE {
                DType::BF16 => cudnnMathType_t::CUDNN_TENSOR_OP_MATH,
                DType::F32 if !gemm_reduced_precision_f32() => cudnnMathType_t::CUDNN_FMA_MATH,
                _ => cudnnMathType_t::CUDNN_DEFAULT_MATH,
            })?;
            Ok(Self {
                conv,
                x: cudnn.create_4d_tensor::<T>(format, four([g.batch, g.channels, g.height, g.width]))?,
                w: cudnn
                    .create_4d_filter::<T>(format, four([g.filters, g.channels, g.kernel[0], g.kernel[1]]))?,
                y: cudnn.create_4d_tensor::<T>(format, four([g.batch, g.filters, out_h, out_w]))?,
            })
        };
        describe().map_err(failed)
    }

    /// Returns cuDNN's choice, unless it needs too much memory or its order of summation differs from run to run.
    fn choose(&self, role: Role) -> std::result::Result<(Algorithm, usize), CudnnError> {
        use DataAlgorithm::CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 as DATA_0;
        use DataAlgorithm::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 as DATA_1;
        use FilterAlgorithm::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 as FILTER_0;
        use FilterAlgorithm::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 as FILTER_1;
        use FilterAlgorithm::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 as FILTER_3;
        use ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM as IMPLICIT;
        macro_rules! chosen {
            ($op:expr, $of:path, $avoided:pat, $instead:ident) => {{
                let op = $op;
                let algorithm = op.pick_algorithm()?;
                let workspace = op.get_workspace_size(algorithm)?;
                if !matches!(algorithm, $avoided) && workspace <= WORKSPACE {
                    return Ok(($of(algorithm), workspace));
                }
                Ok(($of($instead), op.get_workspace_size($instead)?))
            }};
        }
        let Self { conv, x, w, y } = self;
        match role {
            Role::Forward => chosen!(ConvForward { conv, x, w, y }, Algorithm::Forward, IMPLICIT, IMPLICIT),
            Role::Data => {
                chosen!(ConvBackwardData { conv, dx: x, w, dy: y }, Algorithm::Data, DATA_0, DATA_1)
            }
            Role::Filter => chosen!(
                ConvBackwardFilter { conv, x, dw: w, dy: y },
                Algorithm::Filter,
                FILTER_0 | FILTER_3,
                FILTER_1
            ),
        }
    }

    fn start(
        &self,
        algorithm: Algorithm,
        (a, b): (&CudaView<'_, T>, &CudaView<'_, T>),
        out: &mut CudaSlice<T>,
        scratch: &mut CudaSlice<u8>,
    ) -> std::result::Result<(), CudnnError> {
        let Self { conv, x, w, y } = self;
        let (scale, scratch) = ((T::one(), T::zero()), Some(scratch));
        #[expect(unsafe_code, reason = "calls of cuDNN")]
        // SAFETY: the three tensors are contiguous and have the sizes that the descriptors were made from. The scratch memory
        // is as large as cuDNN asked for.
        unsafe {
            match algorithm {
                Algorithm::Forward(algorithm) => {
                    ConvForward { conv, x, w, y }.launch(algorithm, scratch, scale, a, b, out)
                }
                Algorithm::Data(algorithm) => {
                    ConvBackwardData { conv, dx: x, w, dy: y }.launch(algorithm, scratch, scale, out, a, b)
                }
                Algorithm::Filter(algorithm) => {
                    ConvBackwardFilter { conv, x, dw: w, dy: y }.launch(algorithm, scratch, scale, a, out, b)
                }
            }
        }
    }
}

impl Conv2d {
    /// Computes the tensor of the role: maps in the type T of the maps, or filters (O, C, kh, kw) in the type of the
    /// parameters.
    fn made<T: Element + CudnnDataType>(&self, a: Argument<'_>, b: Argument<'_>) -> Result<CudaStorage>
    where
        T::Wide: CudnnDataType,
    {
        let (device, g) = (a.0.device(), &self.geometry);
        match self.role {
            Role::Forward => {
                let (x, len) = (elements::<T>(a)?, g.batch * g.filters * g.pixels());
                let y = self.with_filters::<T>(b, |w| self.product(device, (&x, w), len))?;
                Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
            }
            Role::Data => {
                let (dy, len) = (elements::<T>(b)?, g.batch * g.channels * g.plane());
                let dx = self.with_filters::<T>(a, |w| self.product(device, (w, &dy), len))?;
                Ok(CudaStorage::wrap_cuda_slice(dx, device.clone()))
            }
            Role::Filter => {
                let (x, dy) = (elements::<T>(a)?, elements::<T>(b)?);
                let len = g.filters * g.depth();
                let dw: CudaSlice<T> = self.product(device, (&x, &dy), len)?;
                if self.is_in_order::<T>() {
                    return Ok(CudaStorage::wrap_cuda_slice(dw, device.clone()));
                }
                let ([c, taps], mut to) =
                    (sizes([g.channels, g.taps()])?, unwritten::<T::Wide>(device, len)?);
                launch!(device, FILTERS::"filters_unpack", T, len; &dw, &mut to, &c, &taps);
                Ok(CudaStorage::wrap_cuda_slice(to, device.clone()))
            }
        }
    }

    /// Computes [`made`](Self::made) of a kernel of one pixel as a product of matrices, which cuBLAS starts in a fraction of
    /// the time of cuDNN.
    fn pointwise(&self, a: Argument<'_>, b: Argument<'_>, maps: DType) -> Result<CudaStorage> {
        let g = &self.geometry;
        let (pixels, channels, filters) = (g.batch * g.plane(), g.channels, g.filters);
        let matrix = |(_, layout): Argument<'_>, rows: usize, columns: usize| {
            Layout::contiguous_with_offset((rows, columns), layout.start_offset())
        };
        if matches!(self.role, Role::Filter) {
            let (x, dy) = (matrix(a, pixels, channels), matrix(b, pixels, filters).transpose(0, 1)?);
            let dw = b.0.matmul(a.0, (1, filters, channels, pixels), &dy, &x)?;
            return match maps {
                DType::F32 => Ok(dw),
                _ => dw.to_dtype(&Layout::contiguous((filters, channels)), DType::F32),
            };
        }
        let (map, w) = if matches!(self.role, Role::Data) { (b, a) } else { (a, b) };
        // The filters in the type of the maps.
        let rounded = (w.0.dtype() != maps).then(|| w.0.to_dtype(w.1, maps)).transpose()?;
        let (w, layout) = match &rounded {
            Some(rounded) => (rounded, Layout::contiguous((filters, channels))),
            None => (w.0, matrix(w, filters, channels)),
        };
        if matches!(self.role, Role::Data) {
            return map.0.matmul(w, (1, pixels, channels, filters), &matrix(map, pixels, filters), &layout);
        }
        let (x, layout) = (matrix(map, pixels, channels), layout.transpose(0, 1)?);
        map.0.matmul(w, (1, pixels, filters, channels), &x, &layout)
    }

    /// Returns `true` if cuDNN writes filters in the order (O, C, kh, kw) and in the type of the parameters.
    fn is_in_order<T: Element>(&self) -> bool {
        (self.geometry.taps() == 1 || self.geometry.channels == 1) && T::DTYPE == T::Wide::DTYPE
    }

    /// Calls `run` with the filters as cuDNN reads them, (O, kh, kw, C) in the type of the maps.
    fn with_filters<T: Element>(
        &self,
        (w, layout): Argument<'_>,
        run: impl FnOnce(&CudaView<'_, T>) -> Result<CudaSlice<T>>,
    ) -> Result<CudaSlice<T>> {
        let inner = layout.permute(&[0, 2, 3, 1])?;
        if !inner.is_contiguous() {
            let (device, g) = (w.device(), &self.geometry);
            let (w, len) = (elements::<T::Wide>((w, layout))?, g.filters * g.depth());
            let ([c, taps], mut to) = (sizes([g.channels, g.taps()])?, unwritten::<T>(device, len)?);
            launch!(device, FILTERS::"filters_pack", T, len; &w, &mut to, &c, &taps);
            return run(&to.slice(..));
        }
        if w.dtype() == T::DTYPE {
            return run(&elements::<T>((w, &inner))?);
        }
        let rounded = w.to_dtype(&inner, T::DTYPE)?;
        run(&elements::<T>((&rounded, &Layout::contiguous(inner.shape())))?)
    }

    /// Computes `len` numbers from two tensors by cuDNN.
    fn product<T: Element + CudnnDataType>(
        &self,
        device: &CudaDevice,
        tensors: (&CudaView<'_, T>, &CudaView<'_, T>),
        len: usize,
    ) -> Result<CudaSlice<T>>
    where
        T::Wide: CudnnDataType,
    {
        let described = Described::<T>::new(&handle(device)?, &self.geometry)?;
        let problem = Problem(device.id(), self.geometry, self.role, T::DTYPE, gemm_reduced_precision_f32());
        let known = CHOICES.with_borrow(|choices| choices.get(&problem).copied());
        let (algorithm, workspace) = match known {
            Some(choice) => choice,
            None => {
                let choice = described.choose(self.role).map_err(failed)?;
                CHOICES.with_borrow_mut(|choices| choices.insert(problem, choice));
                choice
            }
        };
        // cuDNN writes all of the output, and reads only the part of the scratch memory that it wrote.
        let (mut out, mut scratch) =
            (unwritten::<T>(device, len)?, unwritten::<u8>(device, workspace.max(1))?);
        described.start(algorithm, tensors, &mut out, &mut scratch).map_err(failed)?;
        Ok(out)
    }
}

impl Kernel<2> for Conv2d {
    /// Filters may be stored as [`innermost`] stores them.
    const STRIDED: bool = true;

    const NAME: &'static str = "conv2d by cuDNN";

    fn shape(&self, _: [&Shape; 2]) -> Result<Shape> {
        let g = &self.geometry;
        let [out_h, out_w] = g.output();
        Ok(match self.role {
            Role::Forward => Shape::from((g.batch, out_h, out_w, g.filters)),
            Role::Data => Shape::from((g.batch, g.height, g.width, g.channels)),
            Role::Filter => Shape::from((g.filters, g.channels, g.kernel[0], g.kernel[1])),
        })
    }

    fn cuda(&self, [a, b]: [Argument<'_>; 2]) -> Made {
        // A map, which decides the type.
        let map = if matches!(self.role, Role::Data) { b } else { a };
        match map.0.dtype() {
            maps @ (DType::F32 | DType::BF16) if self.geometry.is_pointwise() => self.pointwise(a, b, maps),
            DType::F32 => self.made::<f32>(a, b),
            DType::BF16 => self.made::<half::bf16>(a, b),
            other => unsupported(Self::NAME, other),
        }
    }

    fn gradients(&self, [x, w]: [&Tensor; 2], _: &Tensor, dy: &Tensor) -> Gradients<2> {
        let (dy, with) = (dy.contiguous()?, |role| Self { role, ..*self });
        let dx = x.track_op().then(|| with(Role::Data).run([w, &dy])).transpose()?;
        let dw = w.track_op().then(|| with(Role::Filter).run([x, &dy])).transpose()?;
        Ok([dx, dw])
    }
}
