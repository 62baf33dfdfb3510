//! MPI, opened at run time: Open MPI, or MPICH and what shares its binary interface (Intel MPI, MVAPICH,
//! Cray's).
//!
//! Sums are taken on rank 0 (`MPI_Reduce`) and sent to all (`MPI_Bcast`): `MPI_Allreduce` does not promise
//! every rank the same bytes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use candle_core::{DType, Device, Tensor};
use ebm_libraries::{MPI, SharedLibrary, open_first_mpi};

use crate::{Error, Launch, Launcher, Message, Reduce, Result};

/// `MPI_THREAD_FUNNELED`: one thread, the one that starts it, calls MPI; others compute. The same in both
/// interfaces.
const FUNNELED: c_int = 1;
/// Bytes of the longest error text: MPICH's; Open MPI's is shorter.
const MAX_ERROR_STRING: usize = 512;
/// Elements of a message, below 2³¹.
const MAX_COUNT: usize = 1 << 28;

fn broken<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Distributed { reason: reason.into() })
}

/// Joins the processes that an `mpiexec` or `srun` has started.
pub(super) fn join(launch: &Launch, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Box<dyn Reduce>> {
    // Whoever is started without MPI's help would be rank 0 of 1 there.
    let helped = ["PMIX_RANK", "PMI_RANK", "PMI_FD", "PMI_PORT", "OMPI_COMM_WORLD_RANK"];
    if launch.launcher == Launcher::Torchrun && helped.iter().all(|name| lookup(name).is_none()) {
        return broken(
            "torchrun starts no MPI; start this program with mpiexec, or with srun --mpi=pmix, or train on GPUs, where NCCL \
             needs no MPI",
        );
    }
    // The interface of the launcher at hand first.
    let mut files = MPI.files.to_vec();
    if launch.launcher == Launcher::Mpich {
        files.swap(0, 1);
    }
    let (library, file) = open_first_mpi(&files).or_else(|why| {
        broken(format!("{why}; install Open MPI or MPICH, or give the place of one in MPI_HOME"))
    })?;
    let symbol = |name: &str| {
        let missing =
            || Error::Distributed { reason: format!("{file} has no {name}; give another MPI in MPI_HOME") };
        library.function(name).ok_or_else(missing)
    };
    if library.function("ompi_mpi_comm_world").is_some() {
        let object = |name: &str| Ok::<_, Error>(symbol(name)?.cast_mut());
        let handles = Handles {
            world: object("ompi_mpi_comm_world")?,
            byte: object("ompi_mpi_byte")?,
            float: object("ompi_mpi_float")?,
            double: object("ompi_mpi_double")?,
            sum: object("ompi_mpi_op_sum")?,
            errors_return: object("ompi_mpi_errors_return")?,
            in_place: 1,
        };
        Ok(Box::new(Mpi::start(Functions::of(library, &file)?, handles, launch, &file)?))
    } else {
        // Handles of MPICH's interface are numbers.
        let handles: Handles<c_int> = Handles {
            world: 0x4400_0000,
            byte: 0x4c00_010d,
            float: 0x4c00_040a,
            double: 0x4c00_080b,
            sum: 0x5800_0003,
            errors_return: 0x5400_0001,
            in_place: -1,
        };
        Ok(Box::new(Mpi::start(Functions::of(library, &file)?, handles, launch, &file)?))
    }
}

/// The predefined objects; their type H differs between the interfaces.
struct Handles<H> {
    world: H,
    byte: H,
    float: H,
    double: H,
    sum: H,
    errors_return: H,
    /// The address that stands for "the result is also the operand".
    in_place: isize,
}

macro_rules! functions {
    ($($field:ident = $name:literal: ($($argument:ty),*);)*) => {
        /// MPI's functions that are called here; communicators, types, operations and error handlers are of
        /// type H.
        struct Functions<H> { $($field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl<H> Functions<H> {
            #[expect(unsafe_code, reason = "functions of a library that was opened at run time")]
            fn of(library: SharedLibrary, file: &str) -> Result<Self> {
                $(
                    let Some($field) = library.function($name) else { return broken(format!("{file} has no {}", $name)) };
                    // SAFETY: MPI's function of this name has this signature (mpi.h of the interface whose handles are of type H),
                    // and the library stays open.
                    let $field = unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "C" fn($($argument),*) -> c_int>($field)
                    };
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}

functions! {
    init = "MPI_Init_thread": (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    set_errhandler = "MPI_Comm_set_errhandler": (H, H);
    rank = "MPI_Comm_rank": (H, *mut c_int);
    size = "MPI_Comm_size": (H, *mut c_int);
    allgather = "MPI_Allgather": (*const c_void, c_int, H, *mut c_void, c_int, H, H);
    reduce = "MPI_Reduce": (*const c_void, *mut c_void, c_int, H, H, c_int, H);
    bcast = "MPI_Bcast": (*mut c_void, c_int, H, c_int, H);
    error_string = "MPI_Error_string": (c_int, *mut c_char, *mut c_int);
    finalize = "MPI_Finalize": ();
    abort = "MPI_Abort": (H, c_int);
}

/// MPI at work, with handles of type H.
struct Mpi<H> {
    functions: Functions<H>,
    handles: Handles<H>,
    rank: usize,
    world: usize,
}

impl<H: Copy> Mpi<H> {
    #[expect(unsafe_code, reason = "calls of MPI")]
    fn start(functions: Functions<H>, handles: Handles<H>, launch: &Launch, file: &str) -> Result<Self> {
        let mut mpi = Self { functions, handles, rank: 0, world: 1 };
        let (mut level, mut rank, mut size) = (0, 0, 0);
        // SAFETY: null stands for a program without arguments; `level` lives on. Nothing else in this program starts MPI, and a process
        // joins once.
        let started =
            unsafe { (mpi.functions.init)(ptr::null_mut(), ptr::null_mut(), FUNNELED, &raw mut level) };
        if started != 0 {
            return broken(format!("MPI_Init_thread of {file} failed with code {started}"));
        }
        // SAFETY: MPI was started, and both numbers live on.
        let known = unsafe {
            (mpi.functions.set_errhandler)(mpi.handles.world, mpi.handles.errors_return);
            (mpi.functions.rank)(mpi.handles.world, &raw mut rank)
                | (mpi.functions.size)(mpi.handles.world, &raw mut size)
        };
        mpi.checked("MPI_Comm_size", known)?;
        (mpi.rank, mpi.world) = (rank.unsigned_abs() as usize, size.unsigned_abs() as usize);
        if (mpi.rank, mpi.world) != (launch.rank, launch.world) {
            let reason = format!(
                "{file} sees process {} of {} where the launcher started {} of {}; start with the mpiexec of this \
                 library, with srun --mpi=pmix, or give the launcher's own MPI in MPI_HOME",
                mpi.rank, mpi.world, launch.rank, launch.world
            );
            mpi.close();
            return broken(reason);
        }
        Ok(mpi)
    }

    #[expect(unsafe_code, reason = "a call of MPI")]
    fn checked(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = [0_u8; MAX_ERROR_STRING + 1];
        let mut length = 0;
        // SAFETY: the buffer holds the longest text of either interface, and one zero more that is never overwritten.
        unsafe { (self.functions.error_string)(code, text.as_mut_ptr().cast(), &raw mut length) };
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        broken(format!("{call} failed with code {code}: {text}"))
    }

    /// Σ over the ranks in place, on every rank.
    #[expect(unsafe_code, reason = "calls of MPI")]
    fn sum_in_place<T>(&self, values: &mut [T], of: H) -> Result<()> {
        for chunk in values.chunks_mut(MAX_COUNT) {
            let (at, count) = (chunk.as_mut_ptr().cast::<c_void>(), chunk.len() as c_int);
            let in_place = ptr::without_provenance(self.handles.in_place as usize);
            // SAFETY: `at` is of `count` elements of the type that the handle `of` stands for. Rank 0's operand is where its result
            // goes; the others have no result.
            let (reduced, sent) = unsafe {
                let (from, to) =
                    if self.rank == 0 { (in_place, at) } else { (at.cast_const(), ptr::null_mut()) };
                let reduced =
                    (self.functions.reduce)(from, to, count, of, self.handles.sum, 0, self.handles.world);
                (reduced, (self.functions.bcast)(at, count, of, 0, self.handles.world))
            };
            self.checked("MPI_Reduce", reduced)?;
            self.checked("MPI_Bcast", sent)?;
        }
        Ok(())
    }
}

impl<H: Copy> Reduce for Mpi<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    #[expect(unsafe_code, reason = "a call of MPI")]
    fn exchange(&self, message: Message) -> Result<Vec<Message>> {
        let mut all = vec![Message::default(); self.world];
        let count = size_of::<Message>() as c_int;
        let (byte, world) = (self.handles.byte, self.handles.world);
        // SAFETY: `message` is of `count` bytes, and `all` of as many for each rank.
        let code = unsafe {
            (self.functions.allgather)(
                message.as_ptr().cast(),
                count,
                byte,
                all.as_mut_ptr().cast(),
                count,
                byte,
                world,
            )
        };
        self.checked("MPI_Allgather", code)?;
        Ok(all)
    }

    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        let host = vector.to_device(&Device::Cpu)?;
        let sum = match host.dtype() {
            DType::F32 => {
                let mut values = host.to_vec1::<f32>()?;
                self.sum_in_place(&mut values, self.handles.float)?;
                Tensor::new(values, &Device::Cpu)?
            }
            DType::F64 => {
                let mut values = host.to_vec1::<f64>()?;
                self.sum_in_place(&mut values, self.handles.double)?;
                Tensor::new(values, &Device::Cpu)?
            }
            other => return broken(format!("no mean of {other:?}; expected f32 or f64")),
        };
        Ok(sum.to_device(vector.device())?)
    }

    #[expect(unsafe_code, reason = "calls of MPI")]
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        for chunk in bytes.chunks_mut(MAX_COUNT) {
            let (at, count, root) = (chunk.as_mut_ptr().cast(), chunk.len() as c_int, root as c_int);
            // SAFETY: `at` is of `count` bytes.
            let code =
                unsafe { (self.functions.bcast)(at, count, self.handles.byte, root, self.handles.world) };
            self.checked("MPI_Bcast", code)?;
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "a call of MPI")]
    fn close(&self) {
        // SAFETY: MPI was started, by this thread, and is not called any more.
        unsafe { (self.functions.finalize)() };
    }

    #[expect(unsafe_code, reason = "a call of MPI")]
    fn abort(&self) {
        // SAFETY: MPI was started; this ends the process.
        unsafe { (self.functions.abort)(self.handles.world, 1) };
    }
}
