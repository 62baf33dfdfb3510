//! Instruction sets chosen at run time.

use std::sync::LazyLock;

use pulp::{Arch, Simd, WithSimd};

use crate::float::Float;
use crate::{Error, Result};

/// Environment variable that restricts the kernels to older instruction sets than this processor has: `avx2`. It shows how a
/// machine without the newer ones would compute.
const LIMIT: &str = "EBM_SIMD";

/// Returns the best instruction sets of this processor within the limit of `EBM_SIMD`, for kernels that are written with
/// vectors of any length. The answer never changes within a process, so results do not either.
pub fn arch() -> Arch {
    static BEST: LazyLock<Arch> = LazyLock::new(|| {
        #[cfg(target_arch = "x86_64")]
        if is_limited().unwrap_or(false)
            && let Some(avx2) = pulp::x86::V3::try_new()
        {
            return Arch::V3(avx2);
        }
        Arch::new()
    });
    *BEST
}

/// Returns `true` if this processor multiplies bf16, within the limit.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_bf16() -> bool {
    matches!(arch(), Arch::V4(_)) && std::is_x86_feature_detected!("avx512bf16")
}

/// Instruction sets that the kernels on the CPU use in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionSets {
    /// Newest instruction set that the kernels are compiled for and that is used.
    pub newest: &'static str,
    /// `true` if `EBM_SIMD` restricts the kernels to this set.
    pub is_limited: bool,
}

/// Returns the instruction sets that the kernels on the CPU use in this process.
///
/// # Errors
/// [`Error::Argument`] if `EBM_SIMD` is neither empty nor `avx2`. The kernels then ignore the variable.
pub fn instruction_sets() -> Result<InstructionSets> {
    let newest = match arch() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(_) => "AVX-512",
        #[cfg(target_arch = "x86_64")]
        Arch::V3(_) => "AVX2",
        _ => "base",
    };
    Ok(InstructionSets { newest, is_limited: is_limited()? })
}

fn is_limited() -> Result<bool> {
    limits(std::env::var_os(LIMIT).unwrap_or_default().to_str())
}

fn limits(value: Option<&str>) -> Result<bool> {
    match value {
        Some("") => Ok(false),
        #[cfg(target_arch = "x86_64")]
        Some("avx2") => Ok(true),
        value => {
            let reason =
                format!("{LIMIT} in the environment is {value:?}; it can be \"avx2\" on x86-64, or unset");
            Err(Error::Argument { op: "instruction sets", reason })
        }
    }
}

/// Loop that the compiler vectorises. If the loop and all that it calls are inlined, it is compiled for every instruction
/// set.
pub(crate) trait Vectorized: Sized {
    /// Runs the loop, with fused products if `FMA`. Without the instruction a fused product is a library call.
    fn run<const FMA: bool>(self);

    /// Runs the loop with these instruction sets.
    fn dispatch(self, arch: Arch) {
        arch.dispatch(Compiled(self));
    }
}

struct Compiled<L>(L);

impl<L: Vectorized> WithSimd for Compiled<L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // The vectors of x86-64 and aarch64 come with fused products.
        if S::F32_LANES > 1 { self.0.run::<true>() } else { self.0.run::<false>() }
    }
}

/// Returns the products of two vectors, added up over every `N`th element.
#[inline(always)]
pub(crate) fn lane_products<T: Float, const FMA: bool, const N: usize>(a: &[T], b: &[T]) -> [T; N] {
    let mut sums = [T::zero(); N];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<N>(), b.as_chunks::<N>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..N {
            sums[i] = sums[i].add_product::<FMA>(a[i], b[i]);
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        *sum = sum.add_product::<FMA>(*a, *b);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_limit_is_refused() {
        let error = limits(Some("avx9")).unwrap_err().to_string();
        assert!(error.contains("EBM_SIMD") && error.contains("avx9"), "{error}");
        assert!(!limits(Some("")).unwrap());
    }
}
