//! A GPU with one stream.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use candle_core::Device;
use candle_core::cuda_backend::cudarc::driver::{result, sys};

/// Opens GPU `number` once per process, because candle treats two openings of one GPU as two devices.
pub(super) fn open(number: usize) -> Result<Device, String> {
    static OPENED: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = opened.get(&number) {
        return Ok(device.clone());
    }
    ebm_base::libraries::cuda::load()?;
    // A stream of its own, shared by all threads that compute.
    let device = Device::new_cuda_with_stream(number).map_err(|error| error.to_string())?;
    check_capability(&device)?;
    disable_event_tracking(&device).map_err(|error| error.to_string())?;
    keep_freed_memory(number).map_err(|error| error.to_string())?;
    opened.insert(number, device.clone());
    Ok(device)
}

/// Refuses a device that is older than the compute capability of the kernels.
fn check_capability(device: &Device) -> Result<(), String> {
    let context = device.as_cuda_device().map_err(|error| error.to_string())?.cuda_stream().context().clone();
    let (major, minor) = context.compute_capability().map_err(|error| error.to_string())?;
    match crate::cuda::capability() {
        Some(needed @ (a, b)) if (major, minor) < needed => Err(format!(
            "the GPU has compute capability {major}.{minor}, and this program was built for {a}.{b}; build it with \
             CUDA_COMPUTE_CAP={major}{minor}"
        )),
        _ => Ok(()),
    }
}

/// Turns off two events for every tensor.
#[expect(unsafe_code, reason = "candle leaves the synchronisation of several streams to the caller")]
fn disable_event_tracking(device: &Device) -> candle_core::Result<()> {
    // SAFETY: the device is new, and all work on it, from any thread, goes to its one stream. Nothing in this workspace opens
    // another.
    unsafe { device.as_cuda_device()?.disable_event_tracking() };
    Ok(())
}

/// Lets the device's memory pool keep freed memory, instead of giving it back to the driver at each synchronisation.
#[expect(unsafe_code, reason = "a setting that cudarc has no safe function for")]
fn keep_freed_memory(number: usize) -> Result<(), result::DriverError> {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    let mut all = u64::MAX;
    // SAFETY: the device exists, its pool lives as long, and the attribute is a u64.
    unsafe {
        let pool = result::device::get_default_mem_pool(result::device::get(number)?)?;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut all).cast()).result()
    }
}
