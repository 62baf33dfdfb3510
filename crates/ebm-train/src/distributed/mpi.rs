//! MPI, opened at run time: Open MPI, or MPICH and the libraries with its binary interface (Intel MPI, MVAPICH,
//! Cray MPI). If a call of MPI fails, MPI itself ends all processes.
//!
//! Sums are computed on rank 0 (`MPI_Reduce`) and sent to all (`MPI_Bcast`), because `MPI_Allreduce` does not
//! guarantee the same bytes on every rank.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use candle_core::{DType, Device, Tensor};
use ebm_base::libraries::{MPI, SharedLibrary, open_first_mpi};

use crate::distributed::{Group, Launch, Reduce, refuse};
use crate::error::{Error, Result};

/// `MPI_THREAD_FUNNELED`: only the thread that starts MPI calls it; others compute. The value is the same in both
/// interfaces.
const FUNNELED: c_int = 1;
/// Largest number of elements in a message, below 2³¹.
const MAX_COUNT: usize = 1 << 28;

/// Joins the processes of `launch`, which `mpiexec` or `srun` has started. `lookup` reads environment variables.
/// It returns when all processes have joined.
///
/// # Errors
/// [`Error::Distributed`] if there is no MPI, or if MPI sees other processes than the launcher started.
pub fn join_mpi(launch: &Launch, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Group> {
    // A process that was started without MPI's help would be rank 0 of 1 in MPI.
    let is_set = |name: &str| lookup(name).is_some();
    let helped =
        ["PMIX_RANK", "PMI_RANK", "PMI_FD", "PMI_PORT", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_NUM_TASKS"];
    if !helped.into_iter().any(is_set) {
        return refuse(
            "torchrun starts no MPI; start this program with mpiexec, or with srun --mpi=pmix, or train on GPUs, where NCCL \
             needs no MPI",
        );
    }
    // The interface of the present launcher comes first.
    let mut files = MPI.files.to_vec();
    if is_set("PMI_RANK") && !is_set("OMPI_COMM_WORLD_RANK") {
        files.swap(0, 1);
    }
    let (library, file) = open_first_mpi(&files).or_else(|why| {
        refuse(format!("{why}; install Open MPI or MPICH, or give the place of one in MPI_HOME"))
    })?;
    let object = |name: &str| {
        let missing = || Error::Distributed(format!("{file} has no {name}"));
        library.function(name).map(<*const c_void>::cast_mut).ok_or_else(missing)
    };
    if library.function("ompi_mpi_comm_world").is_some() {
        let handles = Handles {
            world: object("ompi_mpi_comm_world")?,
            float: object("ompi_mpi_float")?,
            double: object("ompi_mpi_double")?,
            sum: object("ompi_mpi_op_sum")?,
            in_place: 1,
        };
        Mpi::start(library, &file, handles, launch)
    } else {
        // The handles of MPICH's interface are numbers.
        let handles: Handles<c_int> = Handles {
            world: 0x4400_0000,
            float: 0x4c00_040a,
            double: 0x4c00_080b,
            sum: 0x5800_0003,
            in_place: -1,
        };
        Mpi::start(library, &file, handles, launch)
    }
}

/// Predefined objects of MPI; their type H differs between the interfaces.
struct Handles<H> {
    world: H,
    float: H,
    double: H,
    sum: H,
    /// Address of `MPI_IN_PLACE`, which makes the operand the result.
    in_place: isize,
}

ebm_base::functions! {
    /// Functions of MPI (mpi.h) that are called here; communicators, types and operations have the type H.
    struct Functions<H> {
        init = "MPI_Init_thread": (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
        rank = "MPI_Comm_rank": (H, *mut c_int);
        size = "MPI_Comm_size": (H, *mut c_int);
        reduce = "MPI_Reduce": (*const c_void, *mut c_void, c_int, H, H, c_int, H);
        bcast = "MPI_Bcast": (*mut c_void, c_int, H, c_int, H);
        finalize = "MPI_Finalize": ();
        abort = "MPI_Abort": (H, c_int);
    }
}

/// Running MPI, with handles of type H.
struct Mpi<H> {
    functions: Functions<H>,
    handles: Handles<H>,
    rank: usize,
    world: usize,
}

impl<H: Copy + 'static> Mpi<H> {
    #[expect(unsafe_code, reason = "calls of MPI")]
    fn start(library: SharedLibrary, file: &str, handles: Handles<H>, launch: &Launch) -> Result<Group> {
        let functions = Functions::of(library).or_else(|name| refuse(format!("{file} has no {name}")))?;
        let (mut level, mut rank, mut size) = (0, 0, 0);
        // SAFETY: null means a program without arguments, and the numbers outlive the calls. Nothing else in this
        // program starts MPI, and a process joins once.
        let codes = unsafe {
            [
                (functions.init)(ptr::null_mut(), ptr::null_mut(), FUNNELED, &raw mut level),
                (functions.rank)(handles.world, &raw mut rank),
                (functions.size)(handles.world, &raw mut size),
            ]
        };
        if codes != [0; 3] {
            return refuse(format!("{file} does not start: its codes are {codes:?}"));
        }
        let (rank, world) = (rank.unsigned_abs() as usize, size.unsigned_abs() as usize);
        let mpi = Self { functions, handles, rank, world };
        if (rank, world) != (launch.rank, launch.world) {
            mpi.close();
            return refuse(format!(
                "{file} sees process {rank} of {world} where the launcher started {} of {}; start with the mpiexec of \
                 this library, with srun --mpi=pmix, or give the launcher's own MPI in MPI_HOME",
                launch.rank, launch.world
            ));
        }
        Ok(Group::new(Box::new(mpi)))
    }

    /// Returns the sum over the ranks, on every rank; the handle `of` is the type of the numbers.
    #[expect(unsafe_code, reason = "calls of MPI")]
    fn sum_of<T: candle_core::WithDType>(&self, vector: &Tensor, of: H) -> Result<Tensor> {
        let (Handles { world, sum, in_place, .. }, mut values) = (&self.handles, vector.to_vec1::<T>()?);
        for chunk in values.chunks_mut(MAX_COUNT) {
            let (at, count) = (chunk.as_mut_ptr().cast::<c_void>(), chunk.len() as c_int);
            let (from, to) = match self.rank {
                0 => (ptr::without_provenance(*in_place as usize), at),
                _ => (at.cast_const(), ptr::null_mut()),
            };
            // SAFETY: `at` has `count` elements of the type of the handle `of`. The operand of rank 0 is also its
            // result; the other ranks have no result.
            let codes = unsafe {
                [
                    (self.functions.reduce)(from, to, count, of, *sum, 0, *world),
                    (self.functions.bcast)(at, count, of, 0, *world),
                ]
            };
            if codes != [0; 2] {
                return refuse(format!("MPI_Reduce and MPI_Bcast failed with the codes {codes:?}"));
            }
        }
        Ok(Tensor::new(values, &Device::Cpu)?)
    }
}

impl<H: Copy + 'static> Reduce for Mpi<H> {
    fn rank_and_world(&self) -> (usize, usize) {
        (self.rank, self.world)
    }

    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        let sum = match vector.dtype() {
            DType::F32 => self.sum_of::<f32>(vector, self.handles.float)?,
            DType::F64 => self.sum_of::<f64>(vector, self.handles.double)?,
            other => return refuse(format!("no mean of {other:?}; expected f32 or f64")),
        };
        Ok(sum.to_device(vector.device())?)
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
