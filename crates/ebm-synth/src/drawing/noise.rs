//! Value noise: random values on a lattice, smoothly interpolated.

/// Fractal value noise in 0..=1 at `(x, y)`, in units of the coarsest lattice: each further octave has twice
/// the frequency and half the amplitude.
pub(crate) fn fractal(x: f32, y: f32, octaves: u32, seed: u32) -> f32 {
    let (mut sum, mut total, mut amplitude, mut frequency) = (0.0, 0.0, 1.0, 1.0);
    for octave in 0..octaves {
        sum += amplitude * value(x * frequency, y * frequency, octave_seed(seed, octave));
        total += amplitude;
        amplitude *= 0.5;
        frequency *= 2.0;
    }
    sum / total
}

/// [`fractal`] at the corners of every pixel of an image, row by row, with a coarsest lattice of `cell`
/// pixels: the same values up to rounding, at a fraction of the cost, as each row of an octave meets few
/// lattice points.
pub(crate) fn fractal_field(width: usize, height: usize, cell: f32, octaves: u32, seed: u32) -> Vec<f32> {
    let mut field = vec![0.0; width * height];
    let total = 2.0 - 0.5f32.powi(octaves as i32 - 1);
    for octave in 0..octaves {
        let seed = octave_seed(seed, octave);
        let scale = 0.5f32.powi(octave as i32);
        let place = |pixel: usize| {
            let (index, t) = split(pixel as f32 / (cell * scale));
            (index, smooth(t))
        };
        let columns: Vec<(i32, f32)> = (0..width).map(place).collect();
        let last = columns.last().map_or(0, |column| column.0) + 1;
        for (y, row) in field.chunks_exact_mut(width).enumerate() {
            let (j, v) = place(y);
            let knots: Vec<f32> =
                (0..=last).map(|i| lerp(lattice(i, j, seed), lattice(i, j + 1, seed), v)).collect();
            for (value, &(i, u)) in row.iter_mut().zip(&columns) {
                *value += scale / total * lerp(knots[i as usize], knots[i as usize + 1], u);
            }
        }
    }
    field
}

fn value(x: f32, y: f32, seed: u32) -> f32 {
    let ((column, u), (row, v)) = (split(x), split(y));
    let (u, v) = (smooth(u), smooth(v));
    let corner = |i: i32, j: i32| lattice(column.wrapping_add(i), row.wrapping_add(j), seed);
    let (top, bottom) = (lerp(corner(0, 0), corner(1, 0), u), lerp(corner(0, 1), corner(1, 1), u));
    lerp(top, bottom, v)
}

/// The largest integer not above `x`, and the rest in 0..=1. Without SSE 4.1, `f32::floor` is a call.
pub(crate) fn split(x: f32) -> (i32, f32) {
    let truncated = x as i32;
    let floor = if (truncated as f32) > x { truncated.saturating_sub(1) } else { truncated };
    (floor, x - floor as f32)
}

fn octave_seed(seed: u32, octave: u32) -> u32 {
    seed.wrapping_add(octave.wrapping_mul(0x9E37_79B9))
}

/// A uniform value in 0..1 that depends on its arguments alone (the finaliser of MurmurHash3).
fn lattice(column: i32, row: i32, seed: u32) -> f32 {
    let mut h = (column as u32).wrapping_mul(0x85EB_CA6B) ^ (row as u32).wrapping_mul(0xC2B2_AE35) ^ seed;
    h = (h ^ (h >> 16)).wrapping_mul(0x85EB_CA6B);
    h = (h ^ (h >> 13)).wrapping_mul(0xC2B2_AE35);
    ((h ^ (h >> 16)) >> 8) as f32 / 16_777_216.0
}

/// 3t² − 2t³ for t in 0..=1.
pub(crate) fn smooth(t: f32) -> f32 {
    t * t * (3.0 - 2.0 * t)
}

/// The point at `t` of the way from `a` to `b`.
pub(crate) fn lerp(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_continuous_and_spreads_over_its_range() {
        let samples: Vec<f32> =
            (0..4000).map(|i| fractal(i as f32 * 0.037, i as f32 * -0.021, 4, 5)).collect();
        assert!(samples.iter().all(|v| (0.0..=1.0).contains(v)));
        assert!(samples.windows(2).all(|w| (w[1] - w[0]).abs() < 0.2));
        let mean = samples.iter().sum::<f32>() / samples.len() as f32;
        let variance = samples.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / samples.len() as f32;
        assert!((mean - 0.5).abs() < 0.08 && variance > 0.005, "mean {mean}, variance {variance}");
    }

    #[test]
    fn a_field_equals_its_points() {
        let (width, cell) = (23, 7.5);
        for (index, value) in fractal_field(width, 17, cell, 3, 9).into_iter().enumerate() {
            let point = fractal((index % width) as f32 / cell, (index / width) as f32 / cell, 3, 9);
            assert!((value - point).abs() < 1e-5);
        }
    }

    #[test]
    fn split_rounds_down() {
        assert_eq!(split(-1.25), (-2, 0.75));
        assert_eq!(split(-2.0), (-2, 0.0));
        assert_eq!(split(3.5), (3, 0.5));
    }

    #[test]
    fn seeds_give_different_noise() {
        assert_ne!(fractal(1.3, 2.7, 3, 1), fractal(1.3, 2.7, 3, 2));
    }
}
