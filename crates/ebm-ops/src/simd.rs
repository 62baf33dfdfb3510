//! Instruction sets chosen at run time.

use std::sync::LazyLock;

use pulp::Arch;

use crate::{Error, Result};

/// The variable of the environment that holds the kernels to older instruction sets than this processor has, to see
/// what a machine without the newer ones would do: `avx2`.
const LIMIT: &str = "EBM_SIMD";

/// The instruction sets that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Level {
    /// What the build targets.
    Base,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, VL, DQ and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The best level of this processor within the limit. The answer never changes within a process, so results do not
/// either.
pub(crate) fn detect() -> Level {
    static BEST: LazyLock<Level> = LazyLock::new(|| {
        let (best, limit) = (of_processor(), limit().ok().flatten());
        limit.filter(|limit| *limit < best).unwrap_or(best)
    });
    *BEST
}

/// Whether this processor multiplies bf16, within the limit.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_bf16() -> bool {
    detect() == Level::Avx512 && std::is_x86_feature_detected!("avx512bf16")
}

/// The best instruction sets of this processor within the limit of `EBM_SIMD`, for kernels that are written with
/// vectors of any length.
pub fn arch() -> Arch {
    #[cfg(target_arch = "x86_64")]
    if detect() == Level::Avx2
        && let Some(avx2) = pulp::x86::V3::try_new()
    {
        return Arch::V3(avx2);
    }
    Arch::new()
}

/// What the kernels on the CPU use in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionSets {
    /// The newest one that has a form of its own.
    pub newest: &'static str,
    /// Whether the environment holds them to this.
    pub is_limited: bool,
}

/// What the kernels on the CPU use in this process.
///
/// # Errors
/// [`Error::Argument`] where `EBM_SIMD` in the environment is neither empty nor `avx2`; kernels take it for empty.
pub fn instruction_sets() -> Result<InstructionSets> {
    let is_limited = limit()?.is_some();
    let newest = match detect() {
        Level::Base => "base",
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => "AVX2",
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => "AVX-512",
    };
    Ok(InstructionSets { newest, is_limited })
}

fn limit() -> Result<Option<Level>> {
    limit_of(std::env::var_os(LIMIT).unwrap_or_default().to_str())
}

fn limit_of(value: Option<&str>) -> Result<Option<Level>> {
    match value {
        Some("") => Ok(None),
        #[cfg(target_arch = "x86_64")]
        Some("avx2") => Ok(Some(Level::Avx2)),
        value => {
            let reason =
                format!("{LIMIT} in the environment is {value:?}; it can be \"avx2\" on x86-64, or unset");
            Err(Error::Argument { op: "instruction sets", reason })
        }
    }
}

fn of_processor() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        let fma = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma");
        let avx512 = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512dq");
        if fma && avx512 {
            return Level::Avx512;
        }
        if fma {
            return Level::Avx2;
        }
    }
    Level::Base
}

/// Compiles the `#[inline(always)]` function `$body::<T, FMA>` once per [`Level`] and defines `$name`, which
/// calls the copy for a level.
macro_rules! multiversion {
    ($(#[$doc:meta])* $vis:vis fn $name:ident<$T:ident>($($arg:ident: $ty:ty),* $(,)?) = $body:ident) => {
        $(#[$doc])*
        $vis fn $name<$T: Float>(level: Level, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2<$T: Float>($($arg: $ty),*) {
                $body::<$T, true>($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx2,fma")]
            fn avx512<$T: Float>($($arg: $ty),*) {
                $body::<$T, true>($($arg),*);
            }
            match level {
                // Fused products are part of the base instruction set of aarch64.
                Level::Base => $body::<$T, { cfg!(target_arch = "aarch64") }>($($arg),*),
                #[cfg(target_arch = "x86_64")]
                #[expect(unsafe_code, reason = "calling a function compiled for an instruction set found at run time")]
                // SAFETY: `detect` is the only maker of this level outside tests, and it saw AVX2 and FMA.
                Level::Avx2 => unsafe { avx2::<$T>($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                #[expect(unsafe_code, reason = "calling a function compiled for an instruction set found at run time")]
                // SAFETY: `detect` is the only maker of this level outside tests, and it saw these AVX-512 sets, AVX2 and FMA.
                Level::Avx512 => unsafe { avx512::<$T>($($arg),*) },
            }
        }
    };
}
pub(crate) use multiversion;

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernels' tests once more, in a process that is held to AVX2.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn kernels_are_right_without_newer_instructions() {
        let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
        tests.args(["--skip", "kernels_are_right_without"]);
        let output = tests.env(LIMIT, "avx2").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("held_to_avx2 ... ok"), "{text}");
    }

    #[test]
    fn what_is_used_is_held_to_avx2() {
        let sets = instruction_sets().unwrap();
        assert!(!sets.is_limited || sets.newest != "AVX-512");
    }

    #[test]
    fn an_unknown_limit_is_refused() {
        let error = limit_of(Some("avx9")).unwrap_err().to_string();
        assert!(error.contains("EBM_SIMD") && error.contains("avx9"), "{error}");
        assert_eq!(limit_of(Some("")).unwrap(), None);
    }
}
