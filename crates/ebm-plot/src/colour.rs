//! Colours of the figures.

use plotters_backend::BackendColor;

/// The page.
pub const WHITE: BackendColor = opaque(255, 255, 255);
/// Text and means.
pub const INK: BackendColor = opaque(34, 34, 34);
/// Frames, ticks and their labels.
pub const AXIS: BackendColor = opaque(85, 85, 85);
/// Lines behind the data.
pub const GRID: BackendColor = opaque(230, 230, 230);
/// Observations on a density, reference values.
pub const ACCENT: BackendColor = opaque(205, 74, 20);
/// Values of single runs.
pub const DATA: BackendColor = opaque(33, 101, 151);

const fn opaque(red: u8, green: u8, blue: u8) -> BackendColor {
    BackendColor { alpha: 1.0, rgb: (red, green, blue) }
}

/// The sequential colour of `t` in [0, 1]: white at 0, over green and blue to a dark navy at 1.
///
/// It is a path in Oklch with a lightness linear in `t`, so that equal steps of `t` look equally large and
/// keep their order in a grey print.
pub fn sequential(t: f64) -> BackendColor {
    let t = t.clamp(0.0, 1.0);
    let lightness = 1.0 - 0.73 * t;
    // The largest chroma that stays inside sRGB along this path, less at the dark end.
    let chroma = 0.118 * (std::f64::consts::PI * 0.88 * t.powf(0.8)).sin();
    let hue = (175.0 + 100.0 * t).to_radians();
    let rgb = oklab_to_linear_rgb([lightness, chroma * hue.cos(), chroma * hue.sin()]);
    let [red, green, blue] = rgb.map(|c| (255.0 * encode_srgb(c)).round() as u8);
    opaque(red, green, blue)
}

fn oklab_to_linear_rgb([l, a, b]: [f64; 3]) -> [f64; 3] {
    let [l, m, s] = [
        l + 0.396_337_777_4 * a + 0.215_803_757_3 * b,
        l - 0.105_561_345_8 * a - 0.063_854_172_8 * b,
        l - 0.089_484_177_5 * a - 1.291_485_548_0 * b,
    ]
    .map(|c| c * c * c);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701_0 * s,
    ]
}

/// The transfer curve of sRGB, from linear light to the stored value, both in [0, 1].
fn encode_srgb(linear: f64) -> f64 {
    let linear = linear.clamp(0.0, 1.0);
    if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_darkens_evenly_from_white() {
        assert_eq!(sequential(0.0).rgb, WHITE.rgb);
        assert_eq!(sequential(-1.0).rgb, sequential(0.0).rgb);
        assert_eq!(sequential(2.0).rgb, sequential(1.0).rgb);
        // CIE lightness, of which Oklab's is a close relative, from the luminance of the colours as stored.
        let lightness = |t: f64| {
            let (red, green, blue) = sequential(t).rgb;
            let linear = |c: u8| {
                let c = f64::from(c) / 255.0;
                if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
            };
            116.0 * (0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)).cbrt() - 16.0
        };
        let steps: Vec<f64> =
            (0..10).map(|i| lightness(f64::from(i) / 10.0) - lightness(f64::from(i + 1) / 10.0)).collect();
        assert!(steps.iter().all(|step| (5.0..12.0).contains(step)), "{steps:?}");
    }

    #[test]
    fn no_colour_of_the_map_is_clipped() {
        for i in 0..=100 {
            let t = f64::from(i) / 100.0;
            let chroma = 0.118 * (std::f64::consts::PI * 0.88 * t.powf(0.8)).sin();
            let hue = (175.0 + 100.0 * t).to_radians();
            let rgb = oklab_to_linear_rgb([1.0 - 0.73 * t, chroma * hue.cos(), chroma * hue.sin()]);
            assert!(rgb.iter().all(|c| (-1e-3..1.001).contains(c)), "{t}: {rgb:?}");
        }
    }
}
