//! The device to compute on, and its setup.
//!
//! | file | contents |
//! |---|---|
//! | `precision` | precision of products on a GPU |
//! | `upload` | copies of batches to a device |
//! | `open_cuda` | with the feature `cuda`: a device, set up |
//!
//! [`Inventory`] lists the devices of a machine. A program built with the feature starts without any of CUDA's libraries.

#[cfg(feature = "cuda")]
mod open_cuda;
mod precision;
mod upload;

use std::fmt;
use std::str::FromStr;

use candle_core::Device;
use ebm_base::libraries::Inventory;

pub use precision::Precision;
pub use upload::Uploader;

use crate::{Error, Result};

/// `true` if this build can compute on NVIDIA's GPUs, which is the feature `cuda`.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");

/// Returns the least compute capability `(major, minor)` of a GPU that this build computes on, or `None` without the feature
/// `cuda`.
pub fn built_for() -> Option<(i32, i32)> {
    #[cfg(feature = "cuda")]
    let capability = crate::cuda::capability();
    #[cfg(not(feature = "cuda"))]
    let capability = None;
    capability
}

/// Device to compute on: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The device of [`Gpu`](Self::Gpu), or the CPU if there is no GPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first GPU. If several processes run on a machine, each has its own GPU.
    Gpu,
    /// The GPU with this number, counted from 0.
    Cuda(usize),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown =
            || format!("no device is called `{text}`; devices are `auto`, `cpu`, `cuda` and `cuda:N`");
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Gpu),
            _ => {
                let number = text.strip_prefix("cuda:").ok_or_else(unknown)?;
                number.parse().map(Self::Cuda).map_err(|_| unknown())
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu => f.write_str("cuda"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// Device that is ready to compute.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The device.
    pub device: Device,
    /// Reason in one line why [`Choice::Auto`] gave the CPU, or `None` if the build knows no other device.
    pub why_cpu: Option<String>,
}

/// Opens the device of this choice.
///
/// # Errors
/// [`Error::Device`] if a GPU that was named is not available. [`Choice::Auto`] then gives the CPU, and the reason.
pub fn open(choice: Choice) -> Result<Opened> {
    open_for(choice, 0)
}

/// Opens the device for the process `local_rank` of those on this machine. [`Choice::Auto`] and [`Choice::Gpu`] give the GPU
/// of that number, or the only one that the process sees. [`Choice::Auto`] gives the CPU only if no GPU is seen.
///
/// # Errors
/// The errors of [`open`], and an error if there are fewer GPUs than processes.
pub fn open_for(choice: Choice, local_rank: usize) -> Result<Opened> {
    let opened = |device, why_cpu| Ok(Opened { device, why_cpu });
    // A launcher may show each process only its own GPU.
    let own = || if local_rank > 0 && Inventory::take().devices.len() == 1 { 0 } else { local_rank };
    match choice {
        Choice::Cpu => opened(Device::Cpu, None),
        Choice::Cuda(number) => opened(cuda(number)?, None),
        Choice::Gpu => opened(cuda(own())?, None),
        Choice::Auto if !HAS_CUDA => opened(Device::Cpu, None),
        Choice::Auto => match cuda(own()) {
            Ok(device) => opened(device, None),
            Err(why) if local_rank > 0 && !Inventory::take().devices.is_empty() => Err(why),
            Err(why) => opened(Device::Cpu, Some(why.to_string())),
        },
    }
}

#[cfg(feature = "cuda")]
fn cuda(number: usize) -> Result<Device> {
    open_cuda::open(number).map_err(|reason| Error::Device { device: format!("cuda:{number}"), reason })
}

#[cfg(not(feature = "cuda"))]
fn cuda(number: usize) -> Result<Device> {
    let reason =
        "this program was built without the feature `cuda`; build it with `--features cuda`".to_owned();
    Err(Error::Device { device: format!("cuda:{number}"), reason })
}

/// Returns `true` if cuDNN was found. Only then do convolutions on a GPU use it.
#[cfg(feature = "cuda")]
pub(crate) fn has_cudnn() -> bool {
    ebm_base::libraries::cuda::load() == Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_read_and_written() {
        for (text, choice) in [
            ("auto", Choice::Auto),
            ("cpu", Choice::Cpu),
            ("cuda", Choice::Gpu),
            ("cuda:0", Choice::Cuda(0)),
            ("cuda:12", Choice::Cuda(12)),
        ] {
            assert_eq!(text.parse(), Ok(choice));
            assert_eq!(choice.to_string(), text);
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda0", "CPU"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_build_with_the_feature_knows_what_it_is_for() {
        assert_eq!(built_for().is_some(), HAS_CUDA);
        assert!(
            built_for().is_none_or(|(major, minor)| (5..30).contains(&major) && (0..10).contains(&minor))
        );
    }

    #[test]
    fn the_cpu_is_always_there_and_a_missing_gpu_has_a_reason() {
        assert!(open(Choice::Cpu).unwrap().device.is_cpu());
        let opened = open(Choice::Auto).unwrap();
        assert_eq!(opened.why_cpu.is_some(), HAS_CUDA && opened.device.is_cpu());
        if let Some(why) = opened.why_cpu {
            assert_eq!(why.lines().count(), 1, "{why}");
        }
        // No machine has 4 097 GPUs.
        let error = open(Choice::Cuda(4096)).unwrap_err();
        assert!(matches!(&error, Error::Device { device, .. } if device == "cuda:4096"), "{error}");
        assert!(open_for(Choice::Cpu, 3).unwrap().device.is_cpu());
    }
}
