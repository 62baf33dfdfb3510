//! The argument that says which device to compute on.

use anyhow::Result;
use candle_core::Device;
use clap::Args;
use ebm_nn::device::{Choice, HAS_CUDA, open_for};

/// Where to compute.
#[derive(Args, Clone, Copy, Debug)]
pub struct DeviceArgs {
    /// Where to compute: auto (a GPU where the program can use one), cpu, cuda (the first GPU; each of several processes has its own) or
    /// cuda:N.
    #[arg(long, default_value_t = Choice::Auto, value_name = "DEVICE")]
    device: Choice,
}

impl DeviceArgs {
    /// Opens the device; says on standard error which one it is, unless no other was to be expected.
    pub fn open(self) -> Result<Device> {
        self.open_for(0)
    }

    /// Whether a GPU could come of it.
    pub fn may_be_gpu(self) -> bool {
        HAS_CUDA && self.device != Choice::Cpu
    }

    /// The same for one of several processes on this machine.
    pub fn open_for(self, local_rank: usize) -> Result<Device> {
        let opened = open_for(self.device, local_rank)?;
        if let Some(why) = opened.why_cpu {
            eprintln!("computing on the CPU: {why}");
        } else if !opened.device.is_cpu() {
            eprintln!("computing on {}", self.name(&opened.device));
        }
        Ok(opened.device)
    }

    fn name(self, device: &Device) -> String {
        match device.location() {
            candle_core::DeviceLocation::Cuda { gpu_id } => Choice::Cuda(gpu_id).to_string(),
            _ => self.device.to_string(),
        }
    }
}
