//! Weights of the input samples for each output sample.

use std::ops::Range;

/// Number of fractional bits of Pillow's fixed-point coefficients: 32 − 8 (sample) − 2 (headroom).
pub(super) const PRECISION_BITS: u32 = 22;

/// Pillow's filters: the weight of an input sample by its distance from the output sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Triangle: `BILINEAR`.
    #[default]
    Bilinear,
    /// Equal weights: `BOX`.
    Box,
}

impl Filter {
    /// Returns the radius, in samples of the coarser side.
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.,
            Self::Box => 0.5,
        }
    }

    /// Returns the weight at a distance in samples of the coarser side.
    fn weight(self, distance: f64) -> f64 {
        match self {
            Self::Bilinear => (1. - distance.abs()).max(0.),
            Self::Box => f64::from(u8::from(distance > -0.5 && distance <= 0.5)),
        }
    }
}

/// Pillow's weights along one axis: output sample `i` is `Σ_k weights[i][k] · input[start[i] + k]`.
pub(super) struct Taps {
    start: Vec<usize>,
    /// Weights `(outputs, stride)`; the used length of a row is in `len`.
    weights: Vec<i32>,
    len: Vec<usize>,
    stride: usize,
}

impl Taps {
    /// Computes the weights. The filter's radius grows with the reduction, so that no sample is skipped.
    pub fn new(input: usize, output: usize, filter: Filter) -> Self {
        let scale = input as f64 / output as f64;
        let coarser = scale.max(1.);
        let support = filter.support() * coarser;
        let stride = 2 * support.ceil() as usize + 1;
        let mut taps = Self {
            start: Vec::with_capacity(output),
            weights: vec![0; output * stride],
            len: Vec::with_capacity(output),
            stride,
        };
        let mut row = vec![0.; stride];
        for index in 0..output {
            let center = (index as f64 + 0.5) * scale;
            // Casts saturate at 0, which is the required clipping.
            let start = (center - support + 0.5) as usize;
            let end = ((center + support + 0.5) as usize).min(input);
            let len = end - start;
            let mut sum = 0.;
            for (k, weight) in row[..len].iter_mut().enumerate() {
                *weight = filter.weight(((start + k) as f64 - center + 0.5) / coarser);
                sum += *weight;
            }
            let fixed = &mut taps.weights[index * stride..][..len];
            for (fixed, weight) in fixed.iter_mut().zip(&row) {
                *fixed = (weight / sum * f64::from(1 << PRECISION_BITS) + 0.5) as i32;
            }
            // If the sides are equal, one sample of weight 1 is left.
            let used = fixed.iter().rposition(|&weight| weight != 0).map_or(len, |last| last + 1);
            taps.start.push(start);
            taps.len.push(used);
        }
        taps
    }

    /// Returns the largest number of input samples of an output sample.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the first input sample and the weights of each output sample.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let weights = self.weights.chunks_exact(self.stride);
        self.start
            .iter()
            .zip(&self.len)
            .zip(weights)
            .map(|((&start, &len), weights)| (start, &weights[..len]))
    }
}

/// Two input samples around an output sample, and the weight of the second.
pub(crate) type Neighbours = (usize, usize, f32);

/// Returns the neighbours of each output sample in `kept` along one axis, like torch.
pub(crate) fn neighbours(
    input: usize,
    output: usize,
    kept: Range<usize>,
) -> impl Iterator<Item = Neighbours> {
    let scale = input as f32 / output as f32;
    kept.map(move |index| {
        let position = (scale * (index as f32 + 0.5) - 0.5).max(0.);
        let first = (position as usize).min(input - 1);
        let second = (first + 1).min(input - 1);
        (first, second, (position - first as f32).clamp(0., 1.))
    })
}
