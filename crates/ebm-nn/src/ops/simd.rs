//! Instruction sets chosen at run time.

/// The instruction sets that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The best level of this processor. The answer never changes within a process, so results do not either.
pub(crate) fn detect() -> Level {
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
pub(in crate::ops) use multiversion;
