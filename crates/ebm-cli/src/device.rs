//! Arguments that choose the device to compute on.

use anyhow::{Result, bail};
use candle_core::Device;
use clap::Args;
use ebm_ops::device::{Choice, Precision, open_for};

/// Device and precision of a computation.
#[derive(Args, Clone, Copy, Debug)]
pub struct DeviceArgs {
    /// Device to compute on: auto (a GPU where the program can use one), cpu, cuda (the first GPU, or one GPU for each
    /// of several processes) or cuda:N.
    #[arg(long, default_value_t = Choice::Auto, value_name = "DEVICE")]
    device: Choice,
    /// Precision of a GPU's multiplications: full (f32), tf32, or bf16 (tf32, with the maps of a detector's body in
    /// bf16). The CPU multiplies in f32, and with bf16 in the layers that refine boxes.
    #[arg(long, default_value_t = Precision::Tf32, value_name = "PRECISION")]
    precision: Precision,
}

impl DeviceArgs {
    /// Returns the precision of multiplications.
    pub fn precision(self) -> Precision {
        self.precision
    }

    /// Opens the device for the process `local_rank` of this machine. Says on standard error which device it is, except
    /// for a CPU where no GPU was expected.
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

    /// Opens the device as [`open`](Self::open) does, for a training.
    ///
    /// # Errors
    /// If the device is a CPU and bf16 is asked for.
    pub fn open_to_train(self, local_rank: usize) -> Result<Device> {
        let device = self.open(local_rank)?;
        if device.is_cpu() && self.precision == Precision::Bf16 {
            bail!("the CPU trains in f32, and this would run on it; leave out --precision bf16");
        }
        Ok(device)
    }

    /// Opens the device as [`open`](Self::open) does, for a trained refiner. On a GPU its maps are always f32, so bf16
    /// is refused.
    pub fn open_to_refine(self) -> Result<Device> {
        let device = self.open(0)?;
        if device.is_cpu() { Ok(device) } else { self.refuse_bf16().map(|()| device) }
    }

    /// Opens the device as [`open`](Self::open) does, for a command without bf16, which is refused.
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

/// Returns the name of a device as `--device` takes it.
pub fn name(device: &Device) -> String {
    match device.location() {
        candle_core::DeviceLocation::Cuda { gpu_id } => Choice::Cuda(gpu_id).to_string(),
        _ => Choice::Cpu.to_string(),
    }
}
