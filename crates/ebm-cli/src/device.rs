//! The argument that says which device to compute on.

use anyhow::{Result, bail};
use candle_core::Device;
use clap::Args;
use ebm_ops::device::{Choice, Precision, open_for};

/// Where to compute.
#[derive(Args, Clone, Copy, Debug)]
pub struct DeviceArgs {
    /// Where to compute: auto (a GPU where the program can use one), cpu, cuda (the first GPU; each of
    /// several processes has its own) or cuda:N.
    #[arg(long, default_value_t = Choice::Auto, value_name = "DEVICE")]
    device: Choice,
    /// How a GPU multiplies: full (f32), tf32, or bf16 (tf32, and the maps of a detector's body in bf16).
    /// The CPU multiplies f32, with bf16 in the layers that refine boxes.
    #[arg(long, default_value_t = Precision::Tf32, value_name = "PRECISION")]
    precision: Precision,
}

impl DeviceArgs {
    /// How it multiplies.
    pub fn precision(self) -> Precision {
        self.precision
    }

    /// Opens the device for the process `local_rank` of this machine; says on standard error which one it is, unless no
    /// other was to be expected.
    pub fn open(self, local_rank: usize) -> Result<Device> {
        let opened = open_for(self.device, local_rank)?;
        self.precision.set();
        if let Some(why) = opened.why_cpu {
            eprintln!("computing on the CPU: {why}");
        } else if !opened.device.is_cpu() {
            eprintln!("computing on {}", name(&opened.device));
        }
        Ok(opened.device)
    }

    /// [`open`](Self::open) for a training.
    pub fn open_to_train(self, local_rank: usize) -> Result<Device> {
        let device = self.open(local_rank)?;
        if device.is_cpu() && self.precision == Precision::Bf16 {
            bail!("the CPU trains in f32, and this would run on it; leave out --precision bf16");
        }
        Ok(device)
    }

    /// [`open`](Self::open) for a trained refiner, whose maps are f32 everywhere.
    pub fn open_to_refine(self) -> Result<Device> {
        let device = self.open(0)?;
        if device.is_cpu() { Ok(device) } else { self.refuse_bf16().map(|()| device) }
    }

    /// [`open`](Self::open), where nothing can be bf16.
    pub fn open_single(self) -> Result<Device> {
        self.refuse_bf16()?;
        self.open(0)
    }

    fn refuse_bf16(self) -> Result<()> {
        if self.precision == Precision::Bf16 {
            bail!(
                "--precision bf16 is for `train`, `eval` and `predict` of a detector, and on the CPU for the last two and \
                 `refine boxes`; take tf32 or full here"
            );
        }
        Ok(())
    }
}

/// What `--device` calls a device.
pub fn name(device: &Device) -> String {
    match device.location() {
        candle_core::DeviceLocation::Cuda { gpu_id } => Choice::Cuda(gpu_id).to_string(),
        _ => Choice::Cpu.to_string(),
    }
}
