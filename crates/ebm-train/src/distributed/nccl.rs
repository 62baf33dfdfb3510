//! NVIDIA's NCCL through cudarc. It compiles; **it has not run on a GPU yet.**
//!
//! The processes find each other without a socket of this program. With `NCCL_COMM_ID=host:port` in its
//! environment NCCL itself listens there on rank 0, and every rank has the same id.
//!
//! An all-reduce computes each element once and distributes it, so that all ranks have the same bytes.

use candle_core::cuda_backend::cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use candle_core::cuda_backend::cudarc::nccl::result::NcclError;
use candle_core::cuda_backend::cudarc::nccl::safe::{Comm, Id, NcclType, ReduceOp};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, DType, Device, Layout, Storage, Tensor};
use ebm_base::libraries::{NCCL, open_first};

use crate::distributed::{Group, Launch, Reduce, refuse};
use crate::error::Result;

/// Communicator on the stream of candle's device. Dropping it ends this rank's part.
struct Nccl {
    comm: Comm,
    device: CudaDevice,
}

fn failed<T>(error: NcclError) -> Result<T> {
    refuse(format!("NCCL failed with {:?}; NCCL_DEBUG=WARN lets it say more", error.0))
}

/// Joins the processes of `launch`, each with its own GPU as `device`. They meet at `NCCL_COMM_ID`, which NCCL
/// reads from the environment. It returns when all processes have joined.
///
/// # Errors
/// [`Error::Distributed`](crate::Error::Distributed) if the device is no GPU, if NCCL is missing or fails, or if
/// `NCCL_COMM_ID` is not set.
pub fn join_nccl(launch: &Launch, device: &Device) -> Result<Group> {
    if !device.is_cuda() {
        return refuse("NCCL is for GPUs; take `--device cuda` or `--engine mpi`");
    }
    if std::env::var_os("NCCL_COMM_ID").is_none() {
        return refuse("NCCL_COMM_ID is not set; give host:port of a free port on rank 0's machine");
    }
    let device = device.as_cuda_device()?.clone();
    device.cuda_stream().context().bind_to_thread().w()?;
    open_first(NCCL.files).or_else(|why| refuse(format!("{why}; install NCCL, or take `--engine mpi`")))?;
    let joined =
        Id::new().and_then(|id| Comm::from_rank(device.cuda_stream(), launch.rank, launch.world, id));
    Ok(Group::new(Box::new(Nccl { comm: joined.or_else(failed)?, device })))
}

impl Nccl {
    fn sum_of<T: CudaDType + DeviceRepr + ValidAsZeroBits + NcclType>(
        &self,
        storage: &CudaStorage,
        layout: &Layout,
    ) -> Result<Tensor> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            return refuse(format!("expected a contiguous vector, not strides {:?}", layout.stride()));
        };
        let from = storage.as_cuda_slice::<T>()?.slice(start..end);
        let mut sum = self.device.alloc_zeros::<T>(end - start)?;
        self.comm.all_reduce(&from, &mut sum, &ReduceOp::Sum).or_else(failed)?;
        let sum = Storage::Cuda(CudaStorage::wrap_cuda_slice(sum, self.device.clone()));
        Ok(Tensor::from_storage(sum, layout.shape().clone(), BackpropOp::none(), false))
    }
}

impl Reduce for Nccl {
    fn rank_and_world(&self) -> (usize, usize) {
        (self.comm.rank(), self.comm.world_size())
    }

    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        let there = vector.to_device(&Device::Cuda(self.device.clone()))?;
        let (storage, layout) = there.storage_and_layout();
        let sum = match (&*storage, vector.dtype()) {
            (Storage::Cuda(storage), DType::F32) => self.sum_of::<f32>(storage, layout),
            (Storage::Cuda(storage), DType::F64) => self.sum_of::<f64>(storage, layout),
            (_, other) => refuse(format!("no mean of {other:?}; expected f32 or f64")),
        };
        Ok(sum?.to_device(vector.device())?)
    }
}
