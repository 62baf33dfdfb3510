//! Precision of products on a GPU.

use std::fmt;
use std::str::FromStr;

use candle_core::DType;

/// Number format in which a GPU multiplies f32. Parameters, sums, losses and updates are always f32. The CPU multiplies f32
/// as f32, except in layers that were [packed](crate::nn::PackedLinear::with_inputs) in bf16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32.
    Full,
    /// TF32, with 10 of f32's 23 bits. Convolutions and linear layers use the tensor cores.
    #[default]
    Tf32,
    /// TF32, with maps of a network's body in bf16, half the memory. The weights are rounded for each product. On the CPU,
    /// packed layers multiply in bf16.
    Bf16,
}

impl Precision {
    const NAMES: [(&str, Self); 3] = [("full", Self::Full), ("tf32", Self::Tf32), ("bf16", Self::Bf16)];

    /// Returns the type of the maps in a network's body.
    pub fn maps(self) -> DType {
        if self == Self::Bf16 { DType::BF16 } else { DType::F32 }
    }

    /// Sets this precision for all GPUs of the process. candle holds it for the whole process, and the convolutions of this
    /// crate follow it.
    pub fn set(self) {
        #[cfg(feature = "cuda")]
        candle_core::cuda_backend::set_gemm_reduced_precision_f32(self != Self::Full);
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, precision)| precision).ok_or_else(|| {
            format!("no precision is called `{text}`; there are `full`, `tf32` and, for the maps of a network's body, `bf16`")
        })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Self::NAMES
            .iter()
            .filter(|(_, precision)| precision == self)
            .try_for_each(|(name, _)| f.write_str(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (name, precision) in Precision::NAMES {
            assert_eq!(name.parse(), Ok(precision));
            assert_eq!(precision.to_string(), name);
            assert_eq!(precision.maps() == DType::BF16, name == "bf16");
        }
        assert!("f16".parse::<Precision>().unwrap_err().contains("`f16`"));
    }
}
