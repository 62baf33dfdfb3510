//! Numbers that are fetched from memory while others are multiplied.
//!
//! A product reads its operands in pieces, and a processor does not know which piece follows: at the first use
//! of each it waits for memory. So a tile asks for a share of what comes next with every step of its own.

/// Numbers that are needed soon, to be in the second-level cache by then. Nothing waits for them.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    place: *const f32,
    /// Numbers of a step.
    stride: usize,
}

impl Ahead {
    /// Part `part` of `parts` equal ones of `numbers`, in `steps` steps.
    #[inline(always)]
    pub(crate) fn share(numbers: *const [f32], part: usize, parts: usize, steps: usize) -> Self {
        let (start, end) = (numbers.len() * part / parts, numbers.len() * (part + 1) / parts);
        Self {
            place: numbers.cast::<f32>().wrapping_add(start),
            stride: (end - start).div_ceil(steps.max(1)),
        }
    }

    /// Nothing but what is `there` already: to ask for an address that is nowhere takes long.
    #[inline(always)]
    pub(crate) fn nothing(there: &[f32]) -> Self {
        Self { place: there.as_ptr(), stride: 0 }
    }

    /// Asks for what a step should.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            #[expect(unsafe_code, reason = "a hint that no safe function gives")]
            // SAFETY: it reads nothing, so that any address will do, and every x86-64 knows it.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(self.place.cast());
            }
        }
        self.place = self.place.wrapping_add(self.stride);
    }

    /// Asks for all of `numbers` at once, which should be few.
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
                let mut share = Ahead::share(&raw const numbers[..], part, parts, steps);
                assert!(share.place <= next, "a gap before part {part} of {parts}");
                (0..steps).for_each(|_| share.step());
                next = share.place;
            }
            assert!(next >= numbers.as_ptr_range().end);
        }
        let mut nothing = Ahead::nothing(&numbers);
        nothing.step();
        assert_eq!(nothing.place, numbers.as_ptr());
    }
}
