//! The modes of a density on a grid.

use super::GridDensity;

/// A maximal run of equal values that is higher than what is beside it.
struct Peak {
    first: usize,
    last: usize,
    height: f64,
}

impl GridDensity {
    /// The y of the highest density, to the accuracy of the grid; of a plateau, its middle.
    pub fn mode(&self) -> f64 {
        self.modes(0.0).first().copied().unwrap_or(f64::NAN)
    }

    /// The local modes, those of higher density first, to the accuracy of the grid; of a plateau, its middle.
    /// An end of the grid is one if the density falls away from it.
    ///
    /// `prominence`, in nats, leaves out ripples: a mode stays if from there to any higher point log p falls
    /// by at least as much. 0 keeps all; f32 has ripples of some 1e-7 of |f|.
    pub fn modes(&self, prominence: f64) -> Vec<f64> {
        let mut peaks = self.peaks();
        peaks.retain(|peak| self.prominence(peak) >= prominence);
        peaks.sort_by(|a, b| b.height.total_cmp(&a.height));
        peaks.iter().map(|peak| self.grid.at(0.5 * (peak.first + peak.last) as f64)).collect()
    }

    fn peaks(&self) -> Vec<Peak> {
        let mut peaks = Vec::new();
        let mut first = 0;
        for run in self.log_prob.chunk_by(|a, b| a == b) {
            let (height, next) = (run[0], first + run.len());
            let lower = |neighbour: Option<&f64>| neighbour.is_none_or(|&value| value < height);
            let left = first.checked_sub(1).and_then(|index| self.log_prob.get(index));
            if height > f64::NEG_INFINITY && lower(left) && lower(self.log_prob.get(next)) {
                peaks.push(Peak { first, last: next - 1, height });
            }
            first = next;
        }
        peaks
    }

    /// How far log p falls, at least, on the way from a peak to a higher point; infinite for the highest.
    fn prominence(&self, peak: &Peak) -> f64 {
        let (left, right) = (&self.log_prob[..peak.first], &self.log_prob[peak.last + 1..]);
        peak.height - saddle(left.iter().rev(), peak.height).max(saddle(right.iter(), peak.height))
    }
}

/// The lowest value before the first that exceeds `height`; −∞ if none does.
fn saddle<'a>(values: impl Iterator<Item = &'a f64>, height: f64) -> f64 {
    let mut lowest = f64::INFINITY;
    for &value in values {
        if value > height {
            return lowest;
        }
        lowest = lowest.min(value);
    }
    f64::NEG_INFINITY
}
