//! Random numbers for published results. They are written out here, because a library may change its own.

use rand::RngCore;

/// Draws a number uniformly from `[0, 1)`, a multiple of 2⁻⁵³.
pub(crate) fn unit(rng: &mut dyn RngCore) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Draws an integer uniformly from `0..count`, by Lemire's multiplication without rejection. The bias is below
/// count/2⁶⁴, which is negligible.
pub(crate) fn below(count: usize, rng: &mut dyn RngCore) -> usize {
    ((u128::from(rng.next_u64()) * count as u128) >> 64) as usize
}

/// Shuffles `items` with the algorithm of Fisher and Yates.
pub(crate) fn shuffle(items: &mut [usize], rng: &mut dyn RngCore) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, rng));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_base::Key;

    #[test]
    fn each_place_is_equally_likely() {
        // 6000 shuffles of 3: each of the 6 orders expects 1000, with a standard deviation of 29.
        let mut rng = Key::new(3).rng();
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            shuffle(&mut items, &mut rng);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (880..1120).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_unit_interval_is_half_open() {
        struct Constant(u64);
        impl RngCore for Constant {
            fn next_u32(&mut self) -> u32 {
                self.0 as u32
            }
            fn next_u64(&mut self) -> u64 {
                self.0
            }
            fn fill_bytes(&mut self, bytes: &mut [u8]) {
                bytes.fill(self.0 as u8);
            }
        }
        assert_eq!((unit(&mut Constant(0)), below(7, &mut Constant(0))), (0., 0));
        let most = unit(&mut Constant(u64::MAX));
        assert!(most < 1. && most > 1. - 1e-15);
        assert_eq!((below(7, &mut Constant(u64::MAX)), below(1, &mut Constant(u64::MAX))), (6, 0));
        assert_eq!(unit(&mut Constant(1 << 63)), 0.5);
    }
}
