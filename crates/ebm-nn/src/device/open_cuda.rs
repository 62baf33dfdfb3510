//! A GPU, set up for one stream.

use candle_core::Device;
use candle_core::cuda_backend::cudarc::driver::{result, sys};

/// Opens GPU `number`.
pub(super) fn open(number: usize) -> Result<Device, String> {
    super::libraries::load()?;
    let device = Device::new_cuda(number).map_err(|error| error.to_string())?;
    disable_event_tracking(&device).map_err(|error| error.to_string())?;
    keep_freed_memory(number).map_err(|error| error.to_string())?;
    Ok(device)
}

/// Spares two events for every tensor.
#[expect(unsafe_code, reason = "candle leaves the synchronisation of several streams to the caller")]
fn disable_event_tracking(device: &Device) -> candle_core::Result<()> {
    // SAFETY: the device is new, and all work on it goes to its one stream: nothing in this workspace opens another.
    unsafe { device.as_cuda_device()?.disable_event_tracking() };
    Ok(())
}

/// Lets the device's memory pool keep what is freed, instead of giving it back to the driver at each synchronisation.
#[expect(unsafe_code, reason = "a setting that cudarc has no safe function for")]
fn keep_freed_memory(number: usize) -> Result<(), result::DriverError> {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    let mut all = u64::MAX;
    // SAFETY: the device exists, its pool lives as long as it, and the attribute is a u64.
    unsafe {
        let pool = result::device::get_default_mem_pool(result::device::get(number)?)?;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut all).cast()).result()
    }
}
