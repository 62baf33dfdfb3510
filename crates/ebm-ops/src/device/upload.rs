//! Copies of batches to a device.

use candle_core::{Device, Shape, Tensor};

use crate::Result;

/// Uploads one batch after another. On a GPU it uses two blocks of page-locked memory in turn, so that the copy goes on while
/// the caller prepares the next batch.
#[derive(Debug)]
pub struct Uploader {
    device: Device,
    #[cfg(feature = "cuda")]
    stages: [Option<cuda::Stage>; 2],
}

impl Uploader {
    /// Makes an uploader to this device.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            #[cfg(feature = "cuda")]
            stages: [None, None],
        }
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Uploads these numbers as a tensor. Later uploads do not change it.
    ///
    /// # Errors
    /// Returns an error if the number of elements of the shape differs or memory runs out.
    pub fn upload(&mut self, numbers: &[f32], shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        #[cfg(feature = "cuda")]
        if let Device::Cuda(device) = &self.device
            && numbers.len() == shape.elem_count()
            && !numbers.is_empty()
        {
            self.stages.swap(0, 1);
            return Ok(cuda::upload(device, &mut self.stages[0], numbers, shape)?);
        }
        Ok(Tensor::from_slice(numbers, shape, &self.device)?)
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use candle_core::cuda_backend::WrapErr;
    use candle_core::cuda_backend::cudarc::driver::{CudaEvent, DevicePtrMut, PinnedHostSlice, result};
    use candle_core::op::BackpropOp;
    use candle_core::{CudaDevice, CudaStorage, Result, Shape, Storage, Tensor};
    use rayon::prelude::*;

    /// Numbers that a thread copies at a time.
    const CHUNK: usize = 1 << 16;

    /// Page-locked memory, and the event at which the last copy out of it has ended.
    #[derive(Debug)]
    pub(super) struct Stage {
        memory: PinnedHostSlice<f32>,
        copied: CudaEvent,
    }

    impl Stage {
        #[expect(unsafe_code, reason = "memory that is not set")]
        fn new(device: &CudaDevice, len: usize) -> Result<Self> {
            let context = device.cuda_stream().context().clone();
            // SAFETY: only memory that was written before is read.
            let memory = unsafe { context.alloc_pinned_with_flags::<f32>(len, 0) }.w()?;
            Ok(Self { memory, copied: context.new_event(None).w()? })
        }
    }

    #[expect(unsafe_code, reason = "a copy that goes on after the call")]
    pub(super) fn upload(
        device: &CudaDevice,
        stage: &mut Option<Stage>,
        numbers: &[f32],
        shape: Shape,
    ) -> Result<Tensor> {
        if stage.as_ref().is_none_or(|stage| stage.memory.len() < numbers.len()) {
            // A quarter more, because batches differ in size.
            *stage = Some(Stage::new(device, numbers.len() + numbers.len() / 4)?);
        }
        let Some(Stage { memory, copied }) = stage else {
            candle_core::bail!("there is no memory to upload from")
        };
        copied.synchronize().w()?;
        let from = &mut memory.as_mut_slice().w()?[..numbers.len()];
        from.par_chunks_mut(CHUNK)
            .zip(numbers.par_chunks(CHUNK))
            .for_each(|(to, from)| to.copy_from_slice(from));
        let stream = device.cuda_stream();
        // SAFETY: all of it is written below before anything reads it.
        let mut to = unsafe { device.alloc::<f32>(numbers.len()) }?;
        {
            let (at, _written) = to.device_ptr_mut(&stream);
            // SAFETY: both sides are as long as `numbers`. The source is neither written nor freed before `copied`: the next
            // use and the end of the stage wait for it.
            unsafe { result::memcpy_htod_async(at, from, stream.cu_stream()) }.w()?;
        }
        copied.record(&stream).w()?;
        let storage = Storage::Cuda(CudaStorage::wrap_cuda_slice(to, device.clone()));
        Ok(Tensor::from_storage(storage, shape, BackpropOp::none(), false))
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            // The device records an error, and reports it at its next use.
            self.memory.context().record_err(self.copied.synchronize());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::devices;

    #[test]
    fn batches_arrive_and_stay() {
        for device in devices() {
            let mut uploader = Uploader::new(&device);
            let batch = |salt: usize, len: usize| (0..len).map(|i| (i * 7 + salt) as f32).collect::<Vec<_>>();
            let sizes = [6, 200_000, 70_000, 6, 300_000, 0];
            let uploaded: Vec<Tensor> = (0..)
                .zip(sizes)
                .map(|(salt, len)| uploader.upload(&batch(salt, len), len).unwrap())
                .collect();
            for (salt, (tensor, len)) in uploaded.iter().zip(sizes).enumerate() {
                assert_eq!(tensor.to_vec1::<f32>().unwrap(), batch(salt, len));
            }
            assert_eq!(uploader.upload(&batch(1, 6), (2, 3)).unwrap().dims(), [2, 3]);
            assert!(uploader.upload(&batch(1, 6), (2, 4)).is_err());
        }
    }
}
