//! Logarithm of a sum of exponentials of plain numbers; [`math::log_sum_exp`](crate::math::log_sum_exp) is the
//! version for tensors.

use crate::fused::Real;

/// Running sum whose terms arrive one by one as logarithms. The sum is `sum · exp max`.
#[derive(Clone, Copy)]
pub(crate) struct LogSum<T> {
    max: T,
    sum: T,
}

impl<T: Real> LogSum<T> {
    /// Returns the empty sum, whose logarithm is −∞.
    pub(crate) fn empty() -> Self {
        Self { max: T::from_f64(f64::NEG_INFINITY), sum: T::zero() }
    }

    /// Returns `log Σ exp x` of the numbers in `row`. It reads them twice, so that no partial sum is ever
    /// rescaled.
    pub(crate) fn of(row: &[T]) -> T {
        let max = row.iter().copied().fold(T::from_f64(f64::NEG_INFINITY), Real::max);
        // An infinite maximum would turn x - max into NaN where the result is ±∞.
        let max = if max.is_finite() { max } else { T::zero() };
        Self { max, sum: row.iter().fold(T::zero(), |sum, &x| sum + (x - max).exp()) }.value()
    }

    /// Adds `exp log_term`; `log_term` is finite or −∞.
    pub(crate) fn add(&mut self, log_term: T) {
        if log_term > self.max {
            self.sum = self.sum * (self.max - log_term).exp() + T::one();
            self.max = log_term;
        } else if log_term > T::from_f64(f64::NEG_INFINITY) {
            self.sum += (log_term - self.max).exp();
        }
    }

    /// Returns the logarithm of the sum.
    pub(crate) fn value(&self) -> T {
        self.sum.ln() + self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_by_one_and_all_at_once_agree() {
        let infinity = f64::INFINITY;
        let rows = [vec![], vec![-infinity; 2], vec![0.5, -infinity, 1e3, 999., 1e3], vec![-3., -2., -1.]];
        for row in rows {
            let mut sum = LogSum::empty();
            row.iter().for_each(|&term| sum.add(term));
            let (one_by_one, at_once) = (sum.value(), LogSum::of(&row));
            assert!(one_by_one == at_once || (one_by_one - at_once).abs() < 1e-12, "{row:?}");
        }
        assert_eq!(LogSum::of(&[0f32, 0.]), 2f32.ln());
        assert_eq!(LogSum::of(&[infinity; 2]), infinity);
        assert!(LogSum::of(&[1., f64::NAN]).is_nan());
    }
}
