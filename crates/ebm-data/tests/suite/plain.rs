//! The transforms as their definitions read, one number at a time.

use ebm_data::Image;
use ebm_data::transform::{ChannelOrder, Normalise, Resample, Transform};

/// Both axes of Pillow's bilinear filter, with 8 bits in between.
pub fn pillow(image: &Image, width: usize, height: usize) -> Image {
    let wide = pillow_columns(image, width);
    transpose(&pillow_columns(&transpose(&wide), height))
}

fn transpose(image: &Image) -> Image {
    let pixel = |x: usize, y: usize| image.pixels[3 * (y * image.width + x)..][..3].to_vec();
    let pixels = (0..image.width).flat_map(|x| (0..image.height).flat_map(move |y| pixel(x, y))).collect();
    Image::new(image.height, image.width, pixels).unwrap()
}

fn pillow_columns(image: &Image, width: usize) -> Image {
    if width == image.width {
        return image.clone();
    }
    let scale = image.width as f64 / width as f64;
    let support = scale.max(1.);
    let mut out = Image::filled(width, image.height, [0; 3]).unwrap();
    for x in 0..width {
        let center = (x as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.) as usize;
        let end = ((center + support + 0.5) as usize).min(image.width);
        let weights: Vec<f64> =
            (first..end).map(|i| (1. - ((i as f64 - center + 0.5) / support).abs()).max(0.)).collect();
        let sum = weights.iter().fold(0., |sum, weight| sum + weight);
        let fixed: Vec<i64> = weights.iter().map(|w| (w / sum * f64::from(1 << 22) + 0.5) as i64).collect();
        for y in 0..image.height {
            for c in 0..3 {
                let samples = (first..end).map(|i| i64::from(image.pixels[3 * (y * image.width + i) + c]));
                let sum: i64 = samples.zip(&fixed).map(|(sample, weight)| sample * weight).sum();
                out.pixels[3 * (y * width + x) + c] = ((sum + (1 << 21)) >> 22).clamp(0, 255) as u8;
            }
        }
    }
    out
}

/// The normalised planes of the image, resized to `size` (height, width).
pub fn apply(transform: &Transform, image: &Image, size: (usize, usize)) -> Vec<f32> {
    match transform.resample {
        Resample::Pillow => normalised(&transform.normalise, &pillow(image, size.1, size.0)),
        Resample::TorchBilinear => normalised(&transform.normalise, image)
            .chunks_exact(image.width * image.height)
            .flat_map(|plane| torch(plane, (image.height, image.width), size))
            .collect(),
    }
}

fn normalised(normalise: &Normalise, image: &Image) -> Vec<f32> {
    let plane = |channel: usize| {
        let source = if normalise.order == ChannelOrder::Rgb { channel } else { 2 - channel };
        let samples = image.pixels.iter().skip(source).step_by(3);
        let (mean, std) = (normalise.mean[channel], normalise.std[channel]);
        samples.map(move |&sample| (f32::from(sample) * normalise.scale - mean) / std)
    };
    (0..3).flat_map(plane).collect()
}

/// torch's `interpolate(mode="bilinear", align_corners=False)` of one plane.
fn torch(plane: &[f32], input: (usize, usize), output: (usize, usize)) -> Vec<f32> {
    let around = |index: usize, input: usize, output: usize| {
        let position = (input as f32 / output as f32 * (index as f32 + 0.5) - 0.5).max(0.);
        let first = (position as usize).min(input - 1);
        (first, (first + 1).min(input - 1), (position - first as f32).clamp(0., 1.))
    };
    let mut out = Vec::new();
    for y in 0..output.0 {
        let (top, bottom, down) = around(y, input.0, output.0);
        for x in 0..output.1 {
            let (left, right, across) = around(x, input.1, output.1);
            let lerp = |row: usize| {
                plane[row * input.1 + left] * (1. - across) + plane[row * input.1 + right] * across
            };
            out.push(lerp(top) * (1. - down) + lerp(bottom) * down);
        }
    }
    out
}
