//! Piecewise-linear encoding of numbers (Gorishniy et al. 2022): a network bends at the ends of bins, in each input alone.

use candle_core::{Device, Tensor};

use crate::Result;

/// A bin of an input. Its ramp rises from 0 to 1 between the ends, and the outer ramps of an input go on beyond them by as
/// much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Place of the input in x.
    pub input: usize,
    /// Lower and upper end, in units of x.
    pub ends: [f64; 2],
    /// Whether the bin is the first, and the last, of the input.
    pub is_outer: [bool; 2],
    /// Mean of the ramp, which is taken off.
    pub mean: f64,
}

/// Ramps of P bins.
#[derive(Clone, Debug)]
pub struct Ramps {
    /// Places in x, (P).
    inputs: Tensor,
    /// Slope, value at x = 0, least, largest and mean value, each (1, P).
    slope: Tensor,
    at_zero: Tensor,
    least: Tensor,
    largest: Tensor,
    mean: Tensor,
}

impl Ramps {
    /// Creates the ramps of `bins`, none without any.
    ///
    /// # Errors
    /// Fails if a tensor cannot be made.
    pub fn new(bins: &[Bin]) -> Result<Option<Self>> {
        if bins.is_empty() {
            return Ok(None);
        }
        let row = |of: &dyn Fn(&Bin) -> f64| {
            let values = bins.iter().map(|bin| of(bin) as f32).collect::<Vec<f32>>();
            Tensor::from_vec(values, (1, bins.len()), &Device::Cpu)
        };
        let slope = |bin: &Bin| 1.0 / (bin.ends[1] - bin.ends[0]);
        let inputs: Vec<u32> = bins.iter().map(|bin| bin.input as u32).collect();
        Ok(Some(Self {
            inputs: Tensor::from_vec(inputs, bins.len(), &Device::Cpu)?,
            slope: row(&slope)?,
            at_zero: row(&|bin| -bin.ends[0] * slope(bin))?,
            least: row(&|bin| if bin.is_outer[0] { -1.0 } else { 0.0 })?,
            largest: row(&|bin| if bin.is_outer[1] { 2.0 } else { 1.0 })?,
            mean: row(&|bin| bin.mean)?,
        }))
    }

    /// Appends the ramps to the inputs: x (B, F) -> (B, F + P).
    ///
    /// # Errors
    /// Fails if x lacks an input.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let rising = x.index_select(&self.inputs, 1)?.broadcast_mul(&self.slope)?;
        let value = rising.broadcast_add(&self.at_zero)?;
        let value = value.broadcast_maximum(&self.least)?.broadcast_minimum(&self.largest)?;
        Ok(Tensor::cat(&[x, &value.broadcast_sub(&self.mean)?], 1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ramps of an input add up to a line over its range, and to one beyond.
    #[test]
    fn ramps_rise_from_end_to_end() {
        let bin = |ends, is_outer, mean| Bin { input: 1, ends, is_outer, mean };
        let bins = [bin([-1.0, 0.0], [true, false], 0.75), bin([0.0, 4.0], [false, true], 0.25)];
        let ramps = Ramps::new(&bins).unwrap().unwrap();
        let x = Tensor::new(
            &[[7f32, -9.0], [7.0, -1.5], [7.0, -0.5], [7.0, 1.0], [7.0, 6.0], [7.0, 9.0]],
            &Device::Cpu,
        );
        let found = ramps.forward(&x.unwrap()).unwrap().to_vec2::<f32>().unwrap();
        let expected =
            [[-1.75, -0.25], [-1.25, -0.25], [-0.25, -0.25], [0.25, 0.0], [0.25, 1.25], [0.25, 1.75]];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found[0], 7.0);
            assert_eq!(found[2..], expected);
        }
        assert!(Ramps::new(&[]).unwrap().is_none());
    }
}
