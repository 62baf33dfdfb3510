//! Views of the first frame that the classifier is trained on.

use rand::RngCore;

use crate::draw::unit;
use crate::error::{Error, Result};

/// Transform of a square patch, before the middle of it is cut out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PatchTransform {
    /// No change.
    Identity,
    /// Mirrors left to right.
    FlipHorizontal,
    /// Smooths by a Gaussian with these standard deviations in pixels, down the columns and along the rows. The
    /// kernel ends at two standard deviations, rounded up to whole pixels. Beyond the patch its last pixels repeat.
    Blur {
        /// Standard deviations `(down, along)`, positive.
        sigma: [f64; 2],
    },
    /// Rotates counter-clockwise, as a viewer sees it, about the middle, bilinearly. Beyond the patch its last
    /// pixels repeat.
    Rotate {
        /// Angle in degrees.
        degrees: f64,
    },
}

/// View of a patch: its middle after a transform and a shift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PatchView {
    /// Transform, applied first.
    pub transform: PatchTransform,
    /// Shift of the content in rows down and columns to the right. Beyond the patch its last pixels repeat.
    pub shift: [i32; 2],
}

/// Returns ATOM's views of a first frame, for a network's input of `output` pixels per side: unchanged, 4 shifts,
/// a mirror image, 5 blurs and 12 rotations. The last three kinds are shifted by up to `output / 6` either way,
/// uniformly, along each axis. (ATOM's seven copies with dropout are made from the first view's features.)
pub fn first_frame_views(output: usize, rng: &mut dyn RngCore) -> Vec<PatchView> {
    let fixed = (0.6 * 0.5 * output as f64).round() as i32;
    let still = [[0, 0], [fixed, fixed], [-fixed, fixed], [fixed, -fixed], [-fixed, -fixed]];
    let still = still.map(|shift| PatchView { transform: PatchTransform::Identity, shift });
    let blurs = [[2., 0.2], [0.2, 2.], [3., 1.], [1., 3.], [2., 2.]];
    let turns = [5., -5., 10., -10., 20., -20., 30., -30., 45., -45., -60., 60.];
    let moved = std::iter::once(PatchTransform::FlipHorizontal)
        .chain(blurs.map(|sigma| PatchTransform::Blur { sigma }))
        .chain(turns.map(|degrees| PatchTransform::Rotate { degrees }));
    let most = output as f64 / 6.;
    let moved = moved.map(|transform| {
        let shift = [(); 2].map(|()| ((2. * unit(rng) - 1.) * most).round() as i32);
        PatchView { transform, shift }
    });
    still.into_iter().chain(moved).collect()
}

impl PatchView {
    /// Returns the middle `(C, output, output)` of a patch `(C, side, side)`, transformed and shifted. Patches
    /// may be normalised before, because every transform is linear and keeps constants. If `side - output` is
    /// odd, the middle is half a pixel too far up and left.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `1 <= output <= side`, `planes` is a multiple of `side²` long, angles are
    /// finite, and standard deviations positive and at most `side`.
    pub fn apply(&self, planes: &[f32], side: usize, output: usize) -> Result<Vec<f32>> {
        self.check(planes.len(), side, output)?;
        let channels = planes.len() / (side * side);
        let mut result = vec![0.; channels * output * output];
        let [rows, columns] = self.shift.map(|shift| sources(side, output, shift));
        let pairs = planes.chunks_exact(side * side).zip(result.chunks_exact_mut(output * output));
        for (plane, result) in pairs {
            match self.transform {
                PatchTransform::Identity => pick(plane, side, &rows, &columns, result),
                PatchTransform::FlipHorizontal => {
                    let mirrored: Vec<usize> = columns.iter().map(|column| side - 1 - column).collect();
                    pick(plane, side, &rows, &mirrored, result);
                }
                PatchTransform::Blur { sigma } => blur(plane, side, sigma, &rows, &columns, result),
                PatchTransform::Rotate { degrees } => rotate(plane, side, degrees, &rows, &columns, result),
            }
        }
        Ok(result)
    }

    fn check(&self, len: usize, side: usize, output: usize) -> Result<()> {
        let fail = |name, detail| Err(Error::Argument { name, detail });
        if !(1..=side).contains(&output) {
            return fail("output", format!("{output} is not in 1 to the patch's side of {side} pixels"));
        }
        if !side.checked_mul(side).is_some_and(|area| len.is_multiple_of(area)) {
            return fail("planes", format!("{len} numbers are not planes of {side}x{side}"));
        }
        let valid = match self.transform {
            PatchTransform::Identity | PatchTransform::FlipHorizontal => true,
            PatchTransform::Blur { sigma } => sigma.iter().all(|&s| s > 0. && s <= side as f64),
            PatchTransform::Rotate { degrees } => degrees.is_finite(),
        };
        if valid { Ok(()) } else { fail("transform", format!("{:?} is out of range", self.transform)) }
    }
}

/// Returns the row or column of the transformed patch for each row or column of the result.
fn sources(side: usize, output: usize, shift: i32) -> Vec<usize> {
    let start = ((side - output) / 2) as i64 - i64::from(shift);
    // Between 0 and `side - 1`.
    (0..output as i64).map(|index| (start + index).clamp(0, side as i64 - 1) as usize).collect()
}

fn pick(plane: &[f32], side: usize, rows: &[usize], columns: &[usize], result: &mut [f32]) {
    for (&row, target) in rows.iter().zip(result.chunks_exact_mut(columns.len())) {
        let source = &plane[row * side..][..side];
        for (number, &column) in target.iter_mut().zip(columns) {
            *number = source[column];
        }
    }
}

/// Returns the weights of a Gaussian from `-n` to `n` pixels, `n = ⌈2σ⌉`, which add up to 1.
fn gaussian(sigma: f64) -> Vec<f32> {
    let reach = (2. * sigma).ceil() as i32;
    let weights = (-reach..=reach).map(|t| (-0.5 * (f64::from(t) / sigma).powi(2)).exp());
    let total: f64 = weights.clone().sum();
    weights.map(|weight| (weight / total) as f32).collect()
}

fn blur(plane: &[f32], side: usize, sigma: [f64; 2], rows: &[usize], columns: &[usize], result: &mut [f32]) {
    let [down, along] = sigma.map(gaussian);
    let (above, left) = (down.len() / 2, along.len() / 2);
    // Row smoothed down the columns, with its last numbers repeated on both sides.
    let mut padded = vec![0.; side + 2 * left];
    let mut smooth = vec![0.; side];
    for (&row, target) in rows.iter().zip(result.chunks_exact_mut(columns.len())) {
        let middle = &mut padded[left..left + side];
        middle.fill(0.);
        for (k, &weight) in down.iter().enumerate() {
            let source = (row + k).saturating_sub(above).min(side - 1);
            add(middle, &plane[source * side..][..side], weight);
        }
        let (first, last) = (middle[0], middle[side - 1]);
        padded[..left].fill(first);
        padded[left + side..].fill(last);
        smooth.fill(0.);
        for (k, &weight) in along.iter().enumerate() {
            add(&mut smooth, &padded[k..k + side], weight);
        }
        for (number, &column) in target.iter_mut().zip(columns) {
            *number = smooth[column];
        }
    }
}

fn add(sum: &mut [f32], numbers: &[f32], weight: f32) {
    for (sum, number) in sum.iter_mut().zip(numbers) {
        *sum += weight * number;
    }
}

fn rotate(plane: &[f32], side: usize, degrees: f64, rows: &[usize], columns: &[usize], result: &mut [f32]) {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (middle, last) = (0.5 * (side as f64 - 1.), side - 1);
    // Positions are not negative. Returns the first of two neighbours, the second, and its weight.
    let around = |position: f64| {
        let position = position.clamp(0., last as f64);
        let first = position as usize;
        (first, (first + 1).min(last), (position - first as f64) as f32)
    };
    for (&row, target) in rows.iter().zip(result.chunks_exact_mut(columns.len())) {
        let y = row as f64 - middle;
        for (number, &column) in target.iter_mut().zip(columns) {
            let x = column as f64 - middle;
            let (top, bottom, down) = around(middle + sin * x + cos * y);
            let (left, right, across) = around(middle + cos * x - sin * y);
            let between = |row: usize| {
                let row = &plane[row * side..][..side];
                row[left] + (row[right] - row[left]) * across
            };
            let (upper, lower) = (between(top), between(bottom));
            *number = upper + (lower - upper) * down;
        }
    }
}
