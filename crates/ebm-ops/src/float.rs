//! The element types.

use candle_core::WithDType;

/// The element types that the kernels on the CPU are written for: f32 and f64. There are no others: the
/// matrix product relies on `gemm` knowing the type.
pub trait Float: WithDType + Default + sealed::Sealed {
    /// `self + a·b`, fused where `FMA` says that the instruction set has it.
    ///
    /// Without the instruction a fused product is a library call, hence the parameter.
    #[must_use]
    fn add_product<const FMA: bool>(self, a: Self, b: Self) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! float {
    ($type:ty) => {
        impl Float for $type {
            #[inline(always)]
            fn add_product<const FMA: bool>(self, a: Self, b: Self) -> Self {
                if FMA { a.mul_add(b, self) } else { self + a * b }
            }
        }
    };
}
float!(f32);
float!(f64);
