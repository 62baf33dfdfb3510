//! NVIDIA's NCCL, opened at run time. It compiles; **it has not run on a GPU yet.**
//!
//! The processes find each other without a socket of this program: with `NCCL_COMM_ID=host:port` in its
//! environment NCCL itself listens there on rank 0, and every rank's `ncclGetUniqueId` gives the same id.
//!
//! `ncclAllReduce` computes each element once and sends it on, so that all ranks have the same bytes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, DType, Device, Layout, Storage, Tensor};
use ebm_libraries::{NCCL, SharedLibrary, open_first};

use crate::{Error, Launch, Message, Reduce, Result};

/// `ncclDataType_t` and `ncclRedOp_t` of nccl.h.
const UINT8: c_int = 1;
const UINT64: c_int = 5;
const FLOAT32: c_int = 7;
const FLOAT64: c_int = 8;
const SUM: c_int = 0;

/// `ncclUniqueId`: where the ranks meet.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([c_char; 128]);

macro_rules! functions {
    ($($field:ident = $name:literal: ($($argument:ty),*);)*) => {
        /// NCCL's functions that are called here; streams and communicators are pointers.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            error_string: unsafe extern "C" fn(c_int) -> *const c_char,
        }

        impl Functions {
            #[expect(unsafe_code, reason = "functions of a library that was opened at run time")]
            fn of(library: SharedLibrary, file: &str) -> Result<Self> {
                let symbol = |name: &str| {
                    library.function(name).ok_or_else(|| Error::Distributed { reason: format!("{file} has no {name}") })
                };
                $(
                    // SAFETY: NCCL's function of this name has this signature (nccl.h), and the library stays open.
                    let $field = unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "C" fn($($argument),*) -> c_int>(symbol($name)?)
                    };
                )*
                // SAFETY: as above.
                let error_string = unsafe {
                    std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_int) -> *const c_char>(symbol("ncclGetErrorString")?)
                };
                Ok(Self { $($field,)* error_string })
            }
        }
    };
}

functions! {
    unique_id = "ncclGetUniqueId": (*mut UniqueId);
    init_rank = "ncclCommInitRank": (*mut *mut c_void, c_int, UniqueId, c_int);
    all_reduce = "ncclAllReduce": (*const c_void, *mut c_void, usize, c_int, c_int, *mut c_void, *mut c_void);
    all_gather = "ncclAllGather": (*const c_void, *mut c_void, usize, c_int, *mut c_void, *mut c_void);
    broadcast = "ncclBroadcast": (*const c_void, *mut c_void, usize, c_int, c_int, *mut c_void, *mut c_void);
    destroy = "ncclCommDestroy": (*mut c_void);
    abort = "ncclCommAbort": (*mut c_void);
}

/// A communicator on the stream of candle's device.
pub(super) struct Nccl {
    functions: Functions,
    communicator: *mut c_void,
    rank: usize,
    world: usize,
    device: CudaDevice,
}

fn broken<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Distributed { reason: reason.into() })
}

impl Nccl {
    /// Meets the others where `NCCL_COMM_ID` says, which NCCL reads in the environment.
    #[expect(unsafe_code, reason = "calls of NCCL")]
    pub(super) fn join(
        launch: &Launch,
        device: &Device,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        if !device.is_cuda() {
            return broken("NCCL is for GPUs; take `--device cuda` or `--engine mpi`");
        }
        if lookup("NCCL_COMM_ID").is_none() {
            let reason = "is not set; give host:port of a free port on rank 0's machine".to_owned();
            return Err(Error::Launcher { variable: "NCCL_COMM_ID".into(), reason });
        }
        let device = device.as_cuda_device()?.clone();
        device.cuda_stream().context().bind_to_thread().w()?;
        let (library, file) = open_first(NCCL.files)
            .or_else(|why| broken(format!("{why}; install NCCL, or take `--engine mpi`")))?;
        let functions = Functions::of(library, &file)?;
        let (rank, world) = (launch.rank, launch.world);
        let mut nccl = Self { functions, communicator: ptr::null_mut(), rank, world, device };
        let mut id = UniqueId([0; 128]);
        // SAFETY: the id lives on.
        nccl.checked("ncclGetUniqueId", unsafe { (nccl.functions.unique_id)(&raw mut id) })?;
        let mut communicator = ptr::null_mut();
        // SAFETY: the communicator's place lives on; the device's context is this thread's.
        let code =
            unsafe { (nccl.functions.init_rank)(&raw mut communicator, world as c_int, id, rank as c_int) };
        nccl.checked("ncclCommInitRank", code)?;
        nccl.communicator = communicator;
        Ok(nccl)
    }

    #[expect(unsafe_code, reason = "a call of NCCL")]
    fn checked(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function gives a text that is never freed, for any number.
        let text = unsafe { CStr::from_ptr((self.functions.error_string)(code)) }.to_string_lossy();
        broken(format!("{call} failed with code {code}: {text}; NCCL_DEBUG=WARN lets it say more"))
    }

    #[expect(unsafe_code, reason = "a call of NCCL")]
    fn sum_of<T: CudaDType + DeviceRepr + ValidAsZeroBits>(
        &self,
        storage: &CudaStorage,
        layout: &Layout,
        of: c_int,
    ) -> Result<Tensor> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            return broken(format!("expected a contiguous vector, not strides {:?}", layout.stride()));
        };
        let (from, count) = (storage.as_cuda_slice::<T>()?.slice(start..end), end - start);
        let mut sum = self.device.alloc_zeros::<T>(count)?;
        let stream = self.device.cuda_stream();
        {
            let ((from, _reads), (to, _writes)) = (from.device_ptr(&stream), sum.device_ptr_mut(&stream));
            // SAFETY: both places are of `count` elements of this type on the device, used by its one stream alone, in whose order this
            // runs.
            let code = unsafe {
                (self.functions.all_reduce)(
                    from as *const c_void,
                    to as *mut c_void,
                    count,
                    of,
                    SUM,
                    self.communicator,
                    stream.cu_stream().cast(),
                )
            };
            self.checked("ncclAllReduce", code)?;
        }
        let sum = Storage::Cuda(CudaStorage::wrap_cuda_slice(sum, self.device.clone()));
        Ok(Tensor::from_storage(sum, layout.shape().clone(), BackpropOp::none(), false))
    }
}

impl Reduce for Nccl {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    #[expect(unsafe_code, reason = "a call of NCCL")]
    fn exchange(&self, message: Message) -> Result<Vec<Message>> {
        let mine = self.device.clone_htod(&message)?;
        let mut all = self.device.alloc_zeros::<u64>(message.len() * self.world)?;
        let stream = self.device.cuda_stream();
        {
            let ((from, _reads), (to, _writes)) = (mine.device_ptr(&stream), all.device_ptr_mut(&stream));
            // SAFETY: `mine` is of as many numbers as are sent, `all` of as many for each rank.
            let code = unsafe {
                (self.functions.all_gather)(
                    from as *const c_void,
                    to as *mut c_void,
                    message.len(),
                    UINT64,
                    self.communicator,
                    stream.cu_stream().cast(),
                )
            };
            self.checked("ncclAllGather", code)?;
        }
        Ok(self.device.clone_dtoh(&all)?.as_chunks().0.to_vec())
    }

    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        let (storage, layout) = vector.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => match storage.dtype() {
                DType::F32 => self.sum_of::<f32>(storage, layout, FLOAT32),
                DType::F64 => self.sum_of::<f64>(storage, layout, FLOAT64),
                other => broken(format!("no mean of {other:?}; expected f32 or f64")),
            },
            _ => {
                let device = vector.device().clone();
                drop(storage);
                let there = vector.to_device(&Device::Cuda(self.device.clone()))?;
                Ok(self.sum(&there)?.to_device(&device)?)
            }
        }
    }

    #[expect(unsafe_code, reason = "a call of NCCL")]
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut there = self.device.clone_htod(&*bytes)?;
        let stream = self.device.cuda_stream();
        {
            let (at, _writes) = there.device_ptr_mut(&stream);
            // SAFETY: the place is of as many bytes as are sent and received, in place.
            let code = unsafe {
                (self.functions.broadcast)(
                    at as *const c_void,
                    at as *mut c_void,
                    bytes.len(),
                    UINT8,
                    root as c_int,
                    self.communicator,
                    stream.cu_stream().cast(),
                )
            };
            self.checked("ncclBroadcast", code)?;
        }
        // Waits for the stream, as candle does for any tensor that goes to the host.
        bytes.copy_from_slice(&self.device.clone_dtoh(&there)?);
        Ok(())
    }

    #[expect(unsafe_code, reason = "a call of NCCL")]
    fn close(&self) {
        // SAFETY: the communicator is not used any more.
        unsafe { (self.functions.destroy)(self.communicator) };
    }

    /// Ends this rank's part; the others' wait ends when their launcher ends them.
    #[expect(unsafe_code, reason = "a call of NCCL")]
    fn abort(&self) {
        // SAFETY: the communicator is not used any more.
        unsafe { (self.functions.abort)(self.communicator) };
    }
}
