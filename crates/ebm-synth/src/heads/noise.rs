//! Smooth noise in space, for skin, hair and backgrounds.

use super::geometry::{Vec3, mix};

/// Random values on the integer lattice, smoothly interpolated: 0..=1, a function of place and seed alone.
pub(super) fn noise(p: Vec3, seed: u32) -> f32 {
    let [(i, u), (j, v), (k, w)] = p.map(split);
    let corners =
        |index: i32, factor: u32| [index, index.wrapping_add(1)].map(|i| (i as u32).wrapping_mul(factor));
    let (columns, rows, planes) = (corners(i, 0x9E37_79B1), corners(j, 0x85EB_CA77), corners(k, 0xC2B2_AE3D));
    let values = planes.map(|plane| {
        rows.map(|row| {
            let [left, right] = columns.map(|column| uniform(column ^ row ^ plane ^ seed));
            mix(left, right, u)
        })
    });
    let [near, far] = values.map(|[low, high]| mix(low, high, v));
    mix(near, far, w)
}

/// Three octaves of [`noise`]: each further one has twice the frequency and half the amplitude.
pub(super) fn fractal(p: Vec3, seed: u32) -> f32 {
    let octave = |factor: f32, seed: u32| noise(p.map(|value| factor * value), seed);
    (4.0 * octave(1.0, seed) + 2.0 * octave(2.0, seed ^ 0x5555) + octave(4.0, seed ^ 0xAAAA)) / 7.0
}

/// The largest integer not above `x`, and the rest, smoothed. Without SSE 4.1, `f32::floor` is a call.
fn split(x: f32) -> (i32, f32) {
    let truncated = x as i32;
    let floor = if (truncated as f32) > x { truncated.saturating_sub(1) } else { truncated };
    let t = x - floor as f32;
    (floor, t * t * (3.0 - 2.0 * t))
}

/// A value in 0..1 that looks independent of its neighbours' (the finaliser of MurmurHash3).
fn uniform(mut h: u32) -> f32 {
    h = (h ^ (h >> 16)).wrapping_mul(0x85EB_CA6B);
    h = (h ^ (h >> 13)).wrapping_mul(0xC2B2_AE35);
    ((h ^ (h >> 16)) >> 8) as f32 / 16_777_216.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_continuous_and_spreads_over_its_range() {
        let at = |i: usize| [i as f32 * 0.037, i as f32 * -0.021, i as f32 * 0.013];
        let samples: Vec<f32> = (0..6000).map(|i| noise(at(i), 5)).collect();
        assert!(samples.iter().all(|value| (0.0..=1.0).contains(value)));
        assert!(samples.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.15));
        let mean = samples.iter().sum::<f32>() / 6000.0;
        let spread = samples.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / 6000.0;
        assert!((mean - 0.5).abs() < 0.08 && spread > 0.01, "mean {mean}, variance {spread}");
        assert_ne!(noise([1.3, 2.7, 0.1], 1), noise([1.3, 2.7, 0.1], 2));
        assert!((0.0..=1.0).contains(&fractal([-3.2, 5.1, 0.7], 3)));
    }
}
