//! Which input samples make an output sample, and with which weights.

use std::ops::Range;

/// Pillow's fixed-point coefficients have this many fractional bits: 32 − 8 (sample) − 2 (headroom).
pub(super) const PRECISION_BITS: u32 = 22;

/// The weights of one axis by Pillow: output sample `i` is `Σ_k weights[i][k] · input[start[i] + k]`.
pub(super) struct Taps {
    start: Vec<usize>,
    /// `(outputs, stride)`; a row's used length is in `len`.
    weights: Vec<i32>,
    len: Vec<usize>,
    stride: usize,
}

impl Taps {
    /// A triangle filter whose support grows with the factor of reduction, so that nothing is skipped.
    pub fn new(input: usize, output: usize) -> Self {
        let scale = input as f64 / output as f64;
        let support = scale.max(1.);
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
            // Casts saturate at 0, which is the clipping wanted.
            let start = (center - support + 0.5) as usize;
            let end = ((center + support + 0.5) as usize).min(input);
            let len = end - start;
            let mut sum = 0.;
            for (k, weight) in row[..len].iter_mut().enumerate() {
                let distance = ((start + k) as f64 - center + 0.5) / support;
                *weight = (1. - distance.abs()).max(0.);
                sum += *weight;
            }
            let fixed = &mut taps.weights[index * stride..][..len];
            for (fixed, weight) in fixed.iter_mut().zip(&row) {
                *fixed = (weight / sum * f64::from(1 << PRECISION_BITS) + 0.5) as i32;
            }
            // With the sides equal this leaves one sample of weight 1.
            let used = fixed.iter().rposition(|&weight| weight != 0).map_or(len, |last| last + 1);
            taps.start.push(start);
            taps.len.push(used);
        }
        taps
    }

    /// The most input samples that make an output sample.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Of each output sample the first input sample and the weights.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let weights = self.weights.chunks_exact(self.stride);
        self.start
            .iter()
            .zip(&self.len)
            .zip(weights)
            .map(|((&start, &len), weights)| (start, &weights[..len]))
    }
}

/// One axis by torch: of each output sample in `kept` the two input samples around it and the weight of the second.
pub(crate) fn neighbours(
    input: usize,
    output: usize,
    kept: Range<usize>,
) -> impl Iterator<Item = (usize, usize, f32)> {
    let scale = input as f32 / output as f32;
    kept.map(move |index| {
        let position = (scale * (index as f32 + 0.5) - 0.5).max(0.);
        let first = (position as usize).min(input - 1);
        let second = (first + 1).min(input - 1);
        (first, second, (position - first as f32).clamp(0., 1.))
    })
}
