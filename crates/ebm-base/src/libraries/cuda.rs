//! CUDA's libraries, which are opened when a device is requested.
//!
//! candle asks the linker for these libraries, and a program linked with them does not start if one is missing.
//! This module therefore defines every function that candle and cudarc call, as a jump through a table that
//! [`load`] fills from the libraries on the machine. The linker then needs no library (`build.rs` provides empty
//! archives). If the linker reports an undefined symbol, add its name below.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::OnceLock;

use crate::libraries::inventory::{CUBLAS, CUDNN, CURAND, DRIVER, Library, NCCL, unopened};
use crate::libraries::shared_library::open_first;

/// Library of cudarc's run-time compiler; the kernels of this workspace are compiled when the program is built.
const NVRTC: Library =
    unopened(false, "NVRTC", &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"], "nothing here");

macro_rules! libraries {
    ($($library:ident, else $failure:literal: $($function:ident)*;)*) => {
        #[allow(non_snake_case, reason = "the libraries' names")]
        #[repr(C)]
        struct Table {
            $($($function: *const c_void,)*)*
        }

        /// Address of each function. Until a library is loaded, the address of a function that returns an error
        /// of that library.
        static mut TABLE: Table = Table {
            $($($function: fail::<$failure> as *const c_void,)*)*
        };

        const LIBRARIES: &[(Library, &[(&str, usize)])] = &[
            $(($library, &[$((stringify!($function), offset_of!(Table, $function)),)*]),)*
        ];

        /// Functions with the names that the linker looks for.
        #[expect(unsafe_code, reason = "stands for the libraries' functions of these names")]
        mod functions {
            $($(
                #[allow(non_snake_case, reason = "the library's name")]
                // SAFETY: no other symbol has this name, since no library is linked; the body keeps all registers that hold arguments.
                #[unsafe(no_mangle)]
                #[unsafe(naked)]
                pub unsafe extern "C" fn $function() {
                    #[cfg(target_arch = "x86_64")]
                    std::arch::naked_asm!(
                        "jmp qword ptr [rip + {table} + {offset}]",
                        table = sym super::TABLE,
                        offset = const std::mem::offset_of!(super::Table, $function),
                    );
                    #[cfg(target_arch = "aarch64")]
                    std::arch::naked_asm!(
                        "adrp x16, {table} + {offset}",
                        "ldr x16, [x16, :lo12:{table} + {offset}]",
                        "br x16",
                        table = sym super::TABLE,
                        offset = const std::mem::offset_of!(super::Table, $function),
                    );
                }
            )*)*
        }
    };
}

libraries! {
    DRIVER, else 100:
        cuCtxDestroy_v2 cuCtxGetCurrent cuCtxSetCurrent cuDeviceGet cuDeviceGetAttribute
        cuDeviceGetDefaultMemPool cuDeviceGetName cuDevicePrimaryCtxRelease_v2
        cuDevicePrimaryCtxRetain cuEventCreate cuEventDestroy_v2 cuEventElapsedTime_v2
        cuEventRecord cuEventSynchronize cuGetErrorString cuGraphDestroy cuGraphExecDestroy
        cuGraphInstantiateWithFlags cuGraphLaunch cuInit cuLaunchKernel cuMemAllocAsync
        cuMemAlloc_v2 cuMemFreeAsync cuMemFreeHost cuMemFree_v2 cuMemHostAlloc
        cuMemPoolSetAttribute cuMemcpyDtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2
        cuMemcpyPeerAsync cuMemsetD8Async cuModuleGetFunction cuModuleLoad cuModuleLoadData
        cuModuleUnload cuStreamBeginCapture_v2 cuStreamDestroy_v2 cuStreamEndCapture
        cuCtxSynchronize cuStreamCreate cuStreamIsCapturing cuStreamSynchronize cuStreamWaitEvent;
    CUBLAS, else 1:
        cublasCreate_v2 cublasDestroy_v2 cublasDgemmStridedBatched cublasGemmStridedBatchedEx
        cublasSetStream_v2;
    CURAND, else 101:
        curandCreateGenerator curandDestroyGenerator curandGenerateNormal
        curandGenerateNormalDouble curandGenerateUniform curandGenerateUniformDouble
        curandSetPseudoRandomGeneratorSeed curandSetStream;
    NVRTC, else 11:
        nvrtcCompileProgram nvrtcCreateProgram nvrtcDestroyProgram nvrtcGetPTX nvrtcGetPTXSize
        nvrtcGetProgramLog nvrtcGetProgramLogSize;
    CUDNN, else 1001:
        cudnnConvolutionBackwardData cudnnConvolutionBackwardFilter cudnnConvolutionForward
        cudnnCreate cudnnCreateConvolutionDescriptor cudnnCreateFilterDescriptor
        cudnnCreateTensorDescriptor cudnnDestroy cudnnDestroyConvolutionDescriptor
        cudnnDestroyFilterDescriptor cudnnDestroyTensorDescriptor
        cudnnGetConvolutionBackwardDataAlgorithm_v7
        cudnnGetConvolutionBackwardDataWorkspaceSize
        cudnnGetConvolutionBackwardFilterAlgorithm_v7
        cudnnGetConvolutionBackwardFilterWorkspaceSize
        cudnnGetConvolutionForwardAlgorithm_v7 cudnnGetConvolutionForwardWorkspaceSize
        cudnnSetConvolution2dDescriptor cudnnSetConvolutionMathType
        cudnnSetFilter4dDescriptor cudnnSetStream cudnnSetTensor4dDescriptor
        cudnnSetTensor4dDescriptorEx;
    NCCL, else 2:
        ncclAllReduce ncclCommAbort ncclCommInitRank ncclGetUniqueId;
}

extern "C" fn fail<const ERROR: c_int>() -> c_int {
    ERROR
}

/// Fills the table and returns whether cuDNN is available. Without cuDNN, convolutions are products of image
/// columns. Later calls return the first result.
///
/// # Errors
/// The reason of the system's loader, if a library is missing that all work on a GPU needs.
pub fn load() -> Result<bool, String> {
    static LOADED: OnceLock<Result<bool, String>> = OnceLock::new();
    LOADED.get_or_init(load_all).clone()
}

fn load_all() -> Result<bool, String> {
    let mut cudnn = false;
    for (wanted, functions) in LIBRARIES {
        match open_first(wanted.files) {
            Ok((library, _)) => {
                for (function, offset) in *functions {
                    if let Some(address) = library.function(function) {
                        fill(*offset, address);
                    }
                }
                cudnn |= wanted.name == CUDNN.name;
            }
            Err(why) if wanted.required => {
                return Err(format!("no {} (for {}): {why}", wanted.name, wanted.needed_for));
            }
            Err(_) => {}
        }
    }
    Ok(cudnn)
}

#[expect(unsafe_code, reason = "the table is a static that machine code reads")]
fn fill(offset: usize, address: *const c_void) {
    // SAFETY: `offset_of` made the offset from a field of the table. Only `load_all` writes, once, under the lock
    // of `LOADED`. A device, and with it a caller of these functions, exists only afterwards.
    unsafe { (&raw mut TABLE).cast::<*const c_void>().byte_add(offset).write(address) };
}
