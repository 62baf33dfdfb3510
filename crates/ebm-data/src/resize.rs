//! Bilinear resizing in the two conventions that published detectors were trained with.

use crate::image::Image;

/// Pillow's fixed-point coefficients have this many fractional bits: 32 − 8 (sample) − 2 (headroom).
const PRECISION_BITS: u32 = 22;

/// The weights of one axis: output sample `i` is `Σ_k weights[i][k] · input[start[i] + k]`.
struct Taps {
    start: Vec<usize>,
    /// `(outputs, taps)`, unused taps zero; a row's used length is in `len`.
    weights: Vec<i32>,
    len: Vec<usize>,
    stride: usize,
}

impl Taps {
    /// A triangle filter whose support grows with the factor of reduction, so that nothing is skipped.
    fn new(input: usize, output: usize) -> Self {
        let scale = input as f64 / output as f64;
        let support = scale.max(1.);
        let stride = 2 * support.ceil() as usize + 1;
        let mut taps = Self {
            start: Vec::with_capacity(output),
            weights: vec![0; output * stride],
            len: Vec::new(),
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
            taps.start.push(start);
            taps.len.push(len);
        }
        taps
    }

    fn row(&self, index: usize) -> (usize, &[i32]) {
        (self.start[index], &self.weights[index * self.stride..][..self.len[index]])
    }
}

fn to_u8(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}

/// Resizes as Pillow's `Image.resize((width, height), BILINEAR)` does, to the last bit: columns first, rounded
/// to 8 bits, then rows; antialiased when reducing. Sides must be positive.
pub fn resize_pillow(image: &Image, width: usize, height: usize) -> Image {
    let columns = if width == image.width { None } else { Some(resize_columns(image, width)) };
    let image = columns.as_ref().unwrap_or(image);
    if height == image.height { image.clone() } else { resize_rows(image, height) }
}

fn resize_columns(image: &Image, width: usize) -> Image {
    let taps = Taps::new(image.width, width);
    let mut pixels = vec![0; 3 * width * image.height];
    for (source, target) in image.pixels.chunks_exact(3 * image.width).zip(pixels.chunks_exact_mut(3 * width))
    {
        for (index, pixel) in target.chunks_exact_mut(3).enumerate() {
            let (start, weights) = taps.row(index);
            let mut sum = [1 << (PRECISION_BITS - 1); 3];
            let inputs = source[3 * start..3 * (start + weights.len())].chunks_exact(3);
            for (input, weight) in inputs.zip(weights) {
                for (sum, &sample) in sum.iter_mut().zip(input) {
                    *sum += i32::from(sample) * weight;
                }
            }
            pixel.copy_from_slice(&sum.map(to_u8));
        }
    }
    Image { width, height: image.height, pixels }
}

fn resize_rows(image: &Image, height: usize) -> Image {
    let taps = Taps::new(image.height, height);
    let row_len = 3 * image.width;
    let mut pixels = vec![0; row_len * height];
    let mut sums = vec![0i32; row_len];
    for (index, target) in pixels.chunks_exact_mut(row_len).enumerate() {
        let (start, weights) = taps.row(index);
        sums.fill(1 << (PRECISION_BITS - 1));
        for (input, &weight) in image.pixels[start * row_len..].chunks_exact(row_len).zip(weights) {
            for (sum, &sample) in sums.iter_mut().zip(input) {
                *sum += i32::from(sample) * weight;
            }
        }
        for (sample, &sum) in target.iter_mut().zip(&sums) {
            *sample = to_u8(sum);
        }
    }
    Image { width: image.width, height, pixels }
}

/// Resizes one plane `(input.0, input.1)` to `(output.0, output.1)` (rows, columns) as torch's
/// `interpolate(mode="bilinear", align_corners=False)` does: four neighbours, no antialiasing. Sides must be
/// positive.
pub fn resize_torch(plane: &[f32], input: (usize, usize), output: (usize, usize)) -> Vec<f32> {
    let columns = Neighbours::new(input.1, output.1);
    let mut wide = Vec::with_capacity(input.0 * output.1);
    for row in plane.chunks_exact(input.1) {
        wide.extend(
            columns.0.iter().map(|&(left, right, across)| row[left] * (1. - across) + row[right] * across),
        );
    }
    let mut resized = Vec::with_capacity(output.0 * output.1);
    for (top, bottom, down) in Neighbours::new(input.0, output.0).0 {
        let (top, bottom) = (&wide[top * output.1..][..output.1], &wide[bottom * output.1..][..output.1]);
        resized.extend(top.iter().zip(bottom).map(|(upper, lower)| upper * (1. - down) + lower * down));
    }
    resized
}

/// Per output sample: the two input samples around it and the weight of the second.
struct Neighbours(Vec<(usize, usize, f32)>);

impl Neighbours {
    fn new(input: usize, output: usize) -> Self {
        let scale = input as f32 / output as f32;
        let neighbours = (0..output).map(|index| {
            let position = (scale * (index as f32 + 0.5) - 0.5).max(0.);
            let first = (position as usize).min(input - 1);
            let second = (first + 1).min(input - 1);
            (first, second, (position - first as f32).clamp(0., 1.))
        });
        Self(neighbours.collect())
    }
}
