//! Memory of the classifier: samples of the target with their labels and weights.

use candle_core::Tensor;

use crate::Result;

/// Samples in slots. The samples of the first frame stay. When the memory is full, a new sample replaces the one with
/// the least weight among the others.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Samples `(capacity, H·W, P)`. The first ones are in use.
    samples: Tensor,
    /// Targets `(capacity, H, W)`.
    targets: Tensor,
    weights: Weights,
}

impl Memory {
    /// Creates a memory with the `samples` `(N, H·W, P)` and `targets` `(N, H, W)` of the first frame, equally
    /// weighted. They keep at least the fraction `initial_share` of the total weight. A `capacity` below N + 1 is
    /// raised to it.
    pub fn new(samples: &Tensor, targets: &Tensor, capacity: usize, initial_share: f64) -> Result<Self> {
        let initial = samples.dim(0)?;
        let capacity = capacity.max(initial + 1);
        let room = |x: &Tensor| -> Result<Tensor> {
            let mut shape = x.dims().to_vec();
            shape[0] = capacity;
            let all = Tensor::zeros(shape, x.dtype(), x.device())?;
            all.slice_set(&x.contiguous()?, 0, 0)?;
            Ok(all)
        };
        let weights = Weights::new(initial, capacity, initial_share);
        Ok(Self { samples: room(samples)?, targets: room(targets)?, weights })
    }

    /// Adds `sample` `(1, H·W, P)` with `target` `(1, H, W)`. Its weight is 1 / (1 − rate) times the weight of the
    /// sample before it. The first one has the weight `rate`, relative to 1 / (1 − rate) of the first frame's samples.
    pub fn add(&mut self, sample: &Tensor, target: &Tensor, rate: f64) -> Result<()> {
        let slot = self.weights.add(rate);
        self.samples.slice_set(&sample.contiguous()?, 0, slot)?;
        self.targets.slice_set(&target.contiguous()?, 0, slot)?;
        Ok(())
    }

    /// Returns the samples, their targets and their weights `(N)`, which sum to 1.
    pub fn contents(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let n = self.weights.shares.len();
        let weights = Tensor::new(self.weights.shares.as_slice(), self.samples.device())?;
        let weights = weights.to_dtype(self.samples.dtype())?;
        Ok((self.samples.narrow(0, 0, n)?, self.targets.narrow(0, 0, n)?, weights))
    }
}

/// Weights of the samples.
#[derive(Clone, Debug)]
struct Weights {
    /// Fractions of the total weight, which sum to 1.
    shares: Vec<f64>,
    /// Number of samples of the first frame.
    initial: usize,
    /// Slot of the last sample that was added.
    last: Option<usize>,
    /// Maximum number of samples.
    capacity: usize,
    /// Minimum fraction of the total weight that the first frame's samples keep.
    initial_share: f64,
}

impl Weights {
    fn new(initial: usize, capacity: usize, initial_share: f64) -> Self {
        let shares = vec![1.0 / initial as f64; initial];
        Self { shares, initial, last: None, capacity, initial_share }
    }

    /// Adds the weight of one more sample and returns its slot. Before normalisation, the weight is 1 / (1 − rate)
    /// times the last one. With a constant rate, the fraction of a new sample tends to the rate. A single frame with
    /// another rate hardly differs from its neighbours.
    fn add(&mut self, rate: f64) -> usize {
        let slot = if self.shares.len() < self.capacity {
            self.shares.push(0.0);
            self.shares.len() - 1
        } else {
            let later = self.shares.iter().enumerate().skip(self.initial);
            later.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(self.initial, |(slot, _)| slot)
        };
        // The slot of the last sample may be the one that is replaced.
        self.shares[slot] = match self.last {
            Some(last) => self.shares[last] / (1.0 - rate),
            None => rate * (1.0 - rate),
        };
        let sum: f64 = self.shares.iter().sum();
        self.shares.iter_mut().for_each(|share| *share /= sum);
        self.keep_initial();
        self.last = Some(slot);
        slot
    }

    /// Raises the weights of the first frame's samples to their minimum.
    fn keep_initial(&mut self) {
        let least = self.initial_share;
        let (first, later) = self.shares.split_at_mut(self.initial);
        let sum: f64 = first.iter().sum();
        if sum < least {
            first.iter_mut().for_each(|share| *share *= least / sum);
            later.iter_mut().for_each(|share| *share *= (1.0 - least) / (1.0 - sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    fn weights(capacity: usize, initial_share: f64) -> Weights {
        Weights::new(3, capacity, initial_share)
    }

    /// Before division by the sum, samples that were added with one rate weigh 0.1, 0.1 / 0.9, 0.1 / 0.9² …
    /// where the first frame's weigh 1 / 0.9 together.
    #[test]
    fn a_sample_weighs_more_than_the_one_before() {
        let mut weights = weights(10, 0.0);
        for _ in 0..3 {
            weights.add(0.1);
        }
        // 1/0.9 + 0.1 + 0.1/0.9 + 0.1/0.81 = 1.4456790…
        let sum = 1.445_679_012_345_679;
        let expected = [0.370_370_370, 0.370_370_370, 0.370_370_370, 0.1, 0.111_111_111, 0.123_456_790];
        for (share, expected) in weights.shares.iter().zip(expected) {
            assert!((share - expected / sum).abs() < 1e-9, "{share} {}", expected / sum);
        }
    }

    /// ATOM's code sets w[new] = w[previous] / (1 − lr) and divides by the sum: after a sample with a share of 0.01 a
    /// hard negative's is 0.01 / 0.98 = 0.010204 of 1.010204 in all, which is 0.010101, and not its rate of 0.02.
    #[test]
    fn a_hard_negative_weighs_little_more_than_its_neighbours() {
        let mut weights = weights(10, 0.0);
        weights.shares = vec![0.33, 0.33, 0.33, 0.01];
        weights.last = Some(3);
        assert_eq!(weights.add(0.02), 4);
        assert!((weights.shares[4] - 0.010_101_010).abs() < 1e-9, "{}", weights.shares[4]);
        assert!((weights.shares[3] - 0.01 / 1.010_204_082).abs() < 1e-9);
    }

    /// x ← (x / 0.99) / (1 + x / 0.99) has the fixed point 0.01.
    #[test]
    fn a_share_tends_to_the_rate() {
        let mut weights = weights(500, 0.0);
        (0..400).for_each(|_| _ = weights.add(0.01));
        let newest = weights.shares[402];
        assert!((newest - 0.01).abs() < 1e-5, "{newest}");
    }

    #[test]
    fn the_first_frame_is_never_forgotten() {
        let mut weights = weights(5, 0.25);
        let slots: Vec<usize> = (0..200).map(|_| weights.add(0.1)).collect();
        assert_eq!(slots[..4], [3, 4, 3, 4]);
        assert!(slots.iter().all(|slot| *slot >= 3));
        assert!((weights.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_frame_keeps_its_share() {
        let mut weights = weights(500, 0.25);
        (0..200).for_each(|_| _ = weights.add(0.1));
        assert!((weights.shares[..3].iter().sum::<f64>() - 0.25).abs() < 1e-9);
        assert!((weights.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_hard_negative_weighs_more_and_stays_longer() {
        let mut weights = weights(5, 0.0);
        weights.add(0.01);
        weights.add(0.02);
        assert!(weights.shares[4] > weights.shares[3]);
        assert_eq!(weights.add(0.01), 3);
    }

    #[test]
    fn samples_come_back_from_their_slots() {
        let device = Device::Cpu;
        let initial = Tensor::arange(0f32, 8., &device).unwrap().reshape((2, 2, 2)).unwrap();
        let targets = Tensor::arange(0f32, 4., &device).unwrap().reshape((2, 1, 2)).unwrap();
        let mut memory = Memory::new(&initial, &targets, 3, 0.25).unwrap();
        for value in [7.0, 9.0] {
            let sample = Tensor::full(value, (1, 2, 2), &device).unwrap().to_dtype(DType::F32).unwrap();
            memory.add(&sample, &sample.narrow(1, 0, 1).unwrap(), 0.5).unwrap();
        }
        let (samples, targets, weights) = memory.contents().unwrap();
        let samples = samples.flatten_from(1).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(samples, [[0., 1., 2., 3.], [4., 5., 6., 7.], [9.; 4]]);
        assert_eq!(targets.flatten_from(1).unwrap().to_vec2::<f32>().unwrap()[2], [9., 9.]);
        assert!((weights.sum_all().unwrap().to_scalar::<f32>().unwrap() - 1.0).abs() < 1e-6);
    }
}
