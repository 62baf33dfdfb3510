//! From light to 8-bit samples.

use ebm_seed::Rng;
use rand::Rng as _;
use rand_distr::StandardNormal;

use super::layer::Canvas;

/// Adds noise of standard deviation `noise` at mid-grey, in 8-bit levels, whose variance is part constant,
/// part proportional to the light, and encodes as sRGB.
pub(crate) fn expose(canvas: &Canvas, noise: f32, rng: &mut Rng) -> Vec<u8> {
    // Light of encoded mid-grey, and encoded levels per unit of light there.
    const MID_GREY: f32 = 0.214;
    const LEVELS: f32 = 275.0;
    let deviation = noise / LEVELS;
    let steps = f32::from(CURVE_STEPS);
    let curve: Vec<f32> = (0..=CURVE_STEPS).map(|i| 255.0 * srgb_encode(f32::from(i) / steps)).collect();
    let mut pixels = Vec::with_capacity(3 * canvas.pixels.len());
    for pixel in &canvas.pixels {
        for &light in pixel {
            let normal: f32 = rng.sample(StandardNormal);
            let noisy = light + deviation * normal * (0.3 + 0.7 * light / MID_GREY).sqrt();
            let step = (noisy.clamp(0.0, 1.0) * steps + 0.5) as usize;
            pixels.push((curve[step] + 0.5) as u8);
        }
    }
    pixels
}

/// Steps of the table for the sRGB curve: less than one 8-bit level each.
const CURVE_STEPS: u16 = 4096;

fn srgb_encode(light: f32) -> f32 {
    if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 }
}
