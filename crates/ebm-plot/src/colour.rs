//! Colours of the figures.

use plotters::style::RGBAColor;

/// Colour of text and means.
pub const INK: RGBAColor = RGBAColor(34, 34, 34, 1.0);
/// Colour of frames, ticks and their labels.
pub const AXIS: RGBAColor = RGBAColor(85, 85, 85, 1.0);
/// Colour of the lines behind the data.
pub const GRID: RGBAColor = RGBAColor(230, 230, 230, 1.0);
/// Colour of observations on a density, and of reference values.
pub const ACCENT: RGBAColor = RGBAColor(205, 74, 20, 1.0);
/// Colour of the values of single runs.
pub const DATA: RGBAColor = RGBAColor(33, 101, 151, 1.0);
/// Colours of the series of one figure; they differ in hue and in lightness.
pub const SERIES: [RGBAColor; 4] = [DATA, ACCENT, INK, RGBAColor(73, 192, 211, 1.0)];

/// Sequential colours from white over green and blue to a dark navy, at equal steps of a path in Oklch with falling
/// lightness.
const SEQUENCE: [u32; 9] =
    [0xffffff, 0xb5eee8, 0x73d6db, 0x39b9d0, 0x0e99c0, 0x1878a8, 0x275989, 0x283d63, 0x20253c];

/// Returns the sequential colour of `t`, from white at 0 to the darkest at 1. Equal steps of `t` look equally large
/// and keep their order in a grey print.
pub fn sequential(t: f64) -> RGBAColor {
    let place = t.clamp(0.0, 1.0) * (SEQUENCE.len() - 1) as f64;
    let first = (place as usize).min(SEQUENCE.len() - 2);
    let channel = |shift: u32| {
        let [from, to] = [first, first + 1].map(|i| f64::from((SEQUENCE[i] >> shift) & 0xff));
        (from + (to - from) * (place - first as f64)).round() as u8
    };
    RGBAColor(channel(16), channel(8), channel(0), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_darkens_evenly_from_white() {
        assert_eq!(sequential(0.0), RGBAColor(255, 255, 255, 1.0));
        assert_eq!(sequential(-1.0), sequential(0.0));
        assert_eq!(sequential(2.0), sequential(1.0));
        // CIE lightness, to which Oklab's is close, from the luminance of the colours as stored.
        let lightness = |t: f64| {
            let RGBAColor(red, green, blue, _) = sequential(t);
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
}
