//! Prefetches of numbers from memory while others are multiplied.
//!
//! A product reads its operands in pieces. A processor does not know the next piece, and waits for memory at its first use.
//! So with every step a tile prefetches a share of the next piece.

/// Numbers that are needed soon, to be prefetched into the second-level cache. Nothing waits for them.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    place: *const f32,
    /// Numbers of a step.
    stride: usize,
}

impl Prefetch {
    /// Returns part `part` of `parts` equal parts of `numbers`, to be prefetched in `steps` steps.
    #[inline(always)]
    pub(crate) fn share(numbers: *const [f32], part: usize, parts: usize, steps: usize) -> Self {
        let (start, end) = (numbers.len() * part / parts, numbers.len() * (part + 1) / parts);
        Self {
            place: numbers.cast::<f32>().wrapping_add(start),
            stride: (end - start).div_ceil(steps.max(1)),
        }
    }

    /// Returns a prefetch of numbers that are in the cache already, because a prefetch of an invalid address takes long.
    #[inline(always)]
    pub(crate) fn none(cached: &[f32]) -> Self {
        Self { place: cached.as_ptr(), stride: 0 }
    }

    /// Prefetches the numbers of a step.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            #[expect(unsafe_code, reason = "a hint that no safe function gives")]
            // SAFETY: a prefetch reads nothing, so that any address will do, and every x86-64 has the instruction.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(self.place.cast());
            }
        }
        self.place = self.place.wrapping_add(self.stride);
    }

    /// Prefetches all of `numbers` at once, which should be few.
    #[inline(always)]
    pub(crate) fn fetch(numbers: &[f32]) {
        let lines = numbers.len().div_ceil(LINE);
        let mut all = Self::share(numbers, 0, 1, lines);
        (0..lines).for_each(|_| all.step());
    }
}

/// Numbers of a cache line.
const LINE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_meet_all_numbers_in_their_order() {
        let numbers = vec![0f32; 1000];
        for (parts, steps) in [(1, 1), (3, 7), (14, 384), (1000, 5)] {
            let mut next = numbers.as_ptr();
            for part in 0..parts {
                let mut share = Prefetch::share(&raw const numbers[..], part, parts, steps);
                assert!(share.place <= next, "a gap before part {part} of {parts}");
                (0..steps).for_each(|_| share.step());
                next = share.place;
            }
            assert!(next >= numbers.as_ptr_range().end);
        }
        let mut nothing = Prefetch::none(&numbers);
        nothing.step();
        assert_eq!(nothing.place, numbers.as_ptr());
    }
}
