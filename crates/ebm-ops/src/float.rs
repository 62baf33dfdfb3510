//! The element types.

use candle_core::WithDType;

/// Element type of the kernels on the CPU: f32 or f64. No other type can implement it, because the matrix product relies on
/// `gemm` knowing the type.
pub trait Float: WithDType + Default + sealed::Sealed {
    /// Returns `self + a·b`, fused where `FMA` says that the instruction set has a fused product.
    ///
    /// Without the instruction a fused product is a library call, hence the parameter.
    #[must_use]
    fn add_product<const FMA: bool>(self, a: Self, b: Self) -> Self;
}

mod sealed {
    pub trait Sealed: crate::roi::Loops {}
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
