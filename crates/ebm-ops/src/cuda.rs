//! Launches the kernels that `build.rs` compiles from the `.cu` files beside the operations.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{
    CudaSlice, CudaView, CudaViewMut, DeviceRepr, LaunchConfig, ValidAsZeroBits,
};
use candle_core::cuda_backend::{CudaDType, CudaDevice};
use candle_core::{CudaStorage, DType, Layout, Result, WithDType, bail};

use crate::storage::offsets;

/// PTX of the kernels, one module for each `.cu` file.
pub(crate) mod ptx {
    include!(concat!(env!("OUT_DIR"), "/ptx.rs"));
}

/// A tensor on a GPU.
pub(crate) type Argument<'a> = (&'a CudaStorage, &'a Layout);

/// Result of a kernel.
pub(crate) type Made = Result<CudaStorage>;

/// The element types that kernels are compiled for: f32 and f64, and some for bf16.
pub(crate) trait Element: CudaDType + DeviceRepr + ValidAsZeroBits + WithDType {
    /// Type that the kernels compute with, which is also the type of parameters that meet maps of this type.
    type Wide: Element;
    /// Suffix of the kernels' names.
    const SUFFIX: &'static str;
}

impl Element for half::bf16 {
    type Wide = f32;
    const SUFFIX: &'static str = "bf16";
}

impl Element for f32 {
    type Wide = Self;
    const SUFFIX: &'static str = "f32";
}

impl Element for f64 {
    type Wide = Self;
    const SUFFIX: &'static str = "f64";
}

/// Returns a number in the type that kernels on elements of type T compute with.
pub(crate) fn wide<T: Element>(number: f64) -> T::Wide {
    T::Wide::from_f64(number)
}

/// Returns the compute capability that the kernels were compiled for, `(major, minor)`. Later devices compile their PTX too.
pub(crate) fn capability() -> Option<(i32, i32)> {
    let (_, rest) = ptx::RELU.split_once(".target sm_")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let number: i32 = digits.parse().ok()?;
    Some((number / 10, number % 10))
}

/// Threads of a block.
const BLOCK: u32 = 256;

/// Returns the elements of a contiguous tensor, in order.
pub(crate) fn elements<T: CudaDType>((storage, layout): Argument<'_>) -> Result<CudaView<'_, T>> {
    let (start, end) = offsets(layout)?;
    Ok(storage.as_cuda_slice::<T>()?.slice(start..end))
}

/// Returns the elements of parameters that meet maps of type T.
pub(crate) fn parameters<T: Element>(argument: Argument<'_>) -> Result<CudaView<'_, T::Wide>> {
    elements(argument)
}

/// Returns the elements of a contiguous tensor for writing.
pub(crate) fn elements_mut<'a, T: Element>(
    storage: &'a mut CudaStorage,
    layout: &Layout,
) -> Result<CudaViewMut<'a, T>> {
    let (start, end) = offsets(layout)?;
    Ok(storage.as_cuda_slice_mut::<T>()?.slice_mut(start..end))
}

/// Returns the numbers from a tensor's first element on, for a kernel that is given the strides.
pub(crate) fn from_first<T: Element>((storage, layout): Argument<'_>) -> Result<CudaView<'_, T>> {
    Ok(storage.as_cuda_slice::<T>()?.slice(layout.start_offset()..))
}

/// Allocates `len` numbers without setting them. The kernel writes every number that is read later.
pub(crate) fn unwritten<T: DeviceRepr>(device: &CudaDevice, len: usize) -> Result<CudaSlice<T>> {
    #[expect(unsafe_code, reason = "memory that is not zeroed")]
    // SAFETY: every pattern of bits is a number, and the caller's kernel writes before anything reads.
    unsafe {
        device.alloc::<T>(len)
    }
}

/// Returns the full name of a kernel for elements of type T.
pub(crate) fn kernel<T: Element>(name: &str) -> String {
    format!("{name}_{}", T::SUFFIX)
}

/// Returns blocks and threads for `count` threads that have work.
pub(crate) fn config(count: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count.div_ceil(BLOCK).max(1), 1, 1),
        block_dim: (BLOCK, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Returns the device of an argument.
pub(crate) fn device((storage, _): Argument<'_>) -> &CudaDevice {
    storage.device()
}

/// Returns the number of elements of an argument.
pub(crate) fn len((_, layout): Argument<'_>) -> usize {
    layout.shape().elem_count()
}

/// Returns a number of threads or of elements as the kernels count them: below 2³¹.
pub(crate) fn count(number: usize) -> Result<u32> {
    match i32::try_from(number) {
        Ok(number) => Ok(number.unsigned_abs()),
        Err(_) => {
            bail!("{number} elements are too many for a GPU's kernel; take fewer images or boxes at a time")
        }
    }
}

/// Returns the number of threads for `len` numbers whose channels change fastest. The number keeps a GPU busy, and is a
/// multiple of `channels`, so that a thread that moves on by this number stays in its channel.
pub(crate) fn threads_by_channel(len: usize, channels: usize) -> usize {
    const BUSY: usize = 1 << 18;
    len.min(BUSY.div_ceil(channels.max(1)) * channels)
}

/// Returns sizes as the kernels take them.
pub(crate) fn sizes<const N: usize>(numbers: [usize; N]) -> Result<[i32; N]> {
    let mut sizes = [0; N];
    for (size, number) in sizes.iter_mut().zip(numbers) {
        *size = count(number)? as i32;
    }
    Ok(sizes)
}

/// Returns strides as the kernels take them.
pub(crate) fn strides<const N: usize>(layout: &Layout) -> Result<[i64; N]> {
    match <[usize; N]>::try_from(layout.stride()) {
        Ok(strides) => Ok(strides.map(|stride| stride as i64)),
        Err(_) => bail!("expected {N} dimensions, got {:?}", layout.shape()),
    }
}

/// Returns the error of an operation on a type that it has no kernel for.
pub(crate) fn unsupported<T>(op: &str, dtype: DType) -> Result<T> {
    bail!("{op}: no kernel for {dtype:?}")
}

/// Launches `module::name`, of element type `$t`, with `$count` threads that have work. The count is the kernel's first
/// parameter. The arguments follow: references to slices, views and numbers.
macro_rules! launch {
    ($device:expr, $module:ident::$name:literal, $t:ty, $count:expr; $($argument:expr),* $(,)?) => {{
        use candle_core::cuda_backend::WrapErr;
        use candle_core::cuda_backend::cudarc::driver::PushKernelArg;
        use $crate::cuda;
        let name = cuda::kernel::<$t>($name);
        let function = $device.get_or_load_custom_func(&name, stringify!($module), cuda::ptx::$module)?;
        let count = cuda::count($count)?;
        if count > 0 {
            let mut arguments = function.builder();
            arguments.arg(&count);
            $(arguments.arg($argument);)*
            #[expect(unsafe_code, reason = "a kernel's launch")]
            // SAFETY: the arguments are the kernel's parameters in their order (the .cu file beside this call). The kernel
            // forms no index outside of the sizes among them, which are the sizes of the slices.
            let launched = unsafe { arguments.launch(cuda::config(count)) };
            launched.w()?;
        }
    }};
}
pub(crate) use launch;

/// Returns the storage of `$len` numbers that [`launch!`] writes. The storage is passed after the arguments `$before`.
macro_rules! made {
    (
        $device:expr, $module:ident::$name:literal, $t:ty, $count:expr => $len:expr;
        $($before:expr),*; $($after:expr),* $(,)?
    ) => {{
        let mut made = $crate::cuda::unwritten::<$t>($device, $len)?;
        $crate::cuda::launch!($device, $module::$name, $t, $count; $($before,)* &mut made, $($after),*);
        Ok(candle_core::CudaStorage::wrap_cuda_slice(made, $device.clone()))
    }};
}
pub(crate) use made;

/// Runs `$run` with `$t` as the type of the argument's numbers, f32 or f64.
macro_rules! by_type {
    ($argument:expr, $op:expr, $t:ident => $run:expr) => {
        match candle_core::backend::BackendStorage::dtype($argument.0) {
            candle_core::DType::F32 => {
                type $t = f32;
                $run
            }
            candle_core::DType::F64 => {
                type $t = f64;
                $run
            }
            other => $crate::cuda::unsupported($op, other),
        }
    };
}
pub(crate) use by_type;

/// Variant of [`by_type`] for kernels that exist for bf16 too.
macro_rules! by_any_type {
    ($argument:expr, $op:expr, $t:ident => $run:expr) => {
        match candle_core::backend::BackendStorage::dtype($argument.0) {
            candle_core::DType::BF16 => {
                type $t = half::bf16;
                $run
            }
            _ => $crate::cuda::by_type!($argument, $op, $t => $run),
        }
    };
}
pub(crate) use by_any_type;
