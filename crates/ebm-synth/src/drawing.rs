//! Figures with smooth edges on a textured ground. Colours are in 8-bit levels, lengths in pixels.

use std::f32::consts::TAU;
use std::ops::RangeInclusive;

use ebm_base::Rng;
use ebm_data::{Error, Image, Result};
use rand::Rng as _;

pub(crate) type Point = [f32; 2];
pub(crate) type Rgb = [f32; 3];

/// Names of the figures; a category is an index into this list.
pub(crate) const FIGURES: [&str; 6] = ["disc", "ellipse", "box", "triangle", "star", "cross"];

/// Quality of the JPEG files. From 90 on, chroma is not subsampled.
pub(crate) const JPEG_QUALITY: u8 = 90;

/// Returns the corners of a regular polygon, or of a star whose every second corner has the radius `inner`.
pub(crate) fn regular(corners: u8, inner: f32) -> Vec<Point> {
    let corner = |index: u8| {
        let (sin, cos) = (TAU * f32::from(index) / f32::from(corners)).sin_cos();
        let radius = if index % 2 == 1 { inner } else { 1.0 };
        [radius * cos, radius * sin]
    };
    (0..corners).map(corner).collect()
}

/// Returns the corners of a figure of the category, turned at random, inside the unit disc.
pub(crate) fn figure(category: usize, rng: &mut Rng) -> Vec<Point> {
    let (flat, arm) = (rng.random_range(0.5..=0.75), rng.random_range(0.25..=0.35));
    let corners = match FIGURES[category] {
        "disc" => regular(48, 1.0),
        "ellipse" => regular(48, 1.0).iter().map(|[x, y]| [*x, flat * y]).collect(),
        "box" => [[0.8, 0.8], [-0.8, 0.8], [-0.8, -0.8], [0.8, -0.8]].map(|[x, y]| [x, flat * y]).to_vec(),
        "triangle" => regular(3, 1.0),
        "star" => regular(10, 0.45),
        _ => {
            let quarter = [[0.9, -arm], [0.9, arm], [arm, arm]];
            let turned = |[x, y]: Point| [[x, y], [-y, x], [-x, -y], [y, -x]];
            (0..4).flat_map(|turn| quarter.map(|corner| turned(corner)[turn])).collect()
        }
    };
    let (sin, cos) = rng.random_range(0.0..=TAU).sin_cos();
    corners.iter().map(|[x, y]| [x * cos - y * sin, x * sin + y * cos]).collect()
}

/// Returns the corners of a figure with this radius around a point.
pub(crate) fn place(figure: &[Point], center: Point, radius: f32) -> Vec<Point> {
    figure.iter().map(|[x, y]| [center[0] + radius * x, center[1] + radius * y]).collect()
}

/// Returns the smallest and the largest coordinates: left, top, right, bottom.
pub(crate) fn extent(corners: &[Point]) -> [f32; 4] {
    let none = [f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
    let hull = |[left, top, right, bottom]: [f32; 4], [x, y]: &Point| {
        [left.min(*x), top.min(*y), right.max(*x), bottom.max(*y)]
    };
    corners.iter().fold(none, hull)
}

/// Covered fraction of each pixel under a polygon, also of pixels outside the image.
pub(crate) struct Mask {
    left: i32,
    top: i32,
    width: usize,
    cover: Vec<f32>,
}

impl Mask {
    /// Number of lines per row of pixels.
    const LINES: u8 = 4;

    pub(crate) fn new(corners: &[Point]) -> Self {
        let [left, top, right, bottom] = extent(corners);
        let (left, top) = (left.floor(), top.floor());
        let (width, height) = ((right.ceil() - left) as usize, (bottom.ceil() - top) as usize);
        let mut cover = vec![0.0; width * height];
        let edges = || corners.iter().zip(corners.iter().cycle().skip(1));
        for (row, cover) in cover.chunks_exact_mut(width.max(1)).enumerate() {
            for line in 0..Self::LINES {
                let y = top + row as f32 + (f32::from(line) + 0.5) / f32::from(Self::LINES);
                let crossed = edges().filter(|(a, b)| (a[1] <= y) != (b[1] <= y));
                let mut ends: Vec<f32> =
                    crossed.map(|(a, b)| a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]) - left).collect();
                ends.sort_by(f32::total_cmp);
                for span in ends.chunks_exact(2) {
                    for (x, cover) in cover.iter_mut().enumerate().skip(span[0] as usize) {
                        let part = span[1].min(x as f32 + 1.0) - span[0].max(x as f32);
                        if part <= 0.0 {
                            break;
                        }
                        *cover += part / f32::from(Self::LINES);
                    }
                }
            }
        }
        Self { left: left as i32, top: top as i32, width, cover }
    }

    /// Returns the number of pixels that are covered at least by half.
    pub(crate) fn size(&self) -> usize {
        self.cover.iter().filter(|&&cover| cover >= 0.5).count()
    }

    /// Returns each covered pixel of the image: column, row and covered fraction.
    pub(crate) fn inside(&self, width: usize, height: usize) -> impl Iterator<Item = (usize, usize, f32)> {
        self.cover.iter().enumerate().filter(|(_, cover)| **cover > 0.0).filter_map(move |(index, &cover)| {
            let x = usize::try_from(self.left + (index % self.width) as i32).ok()?;
            let y = usize::try_from(self.top + (index / self.width) as i32).ok()?;
            (x < width && y < height).then_some((x, y, cover))
        })
    }
}

/// Texture of two colours, mixed by waves.
#[derive(Clone, Debug)]
pub(crate) struct Surface {
    colors: [Rgb; 2],
    /// Change of the phase with x and with y, and phase.
    waves: [[f32; 3]; 2],
}

impl Surface {
    /// Makes a surface of one colour.
    pub(crate) fn plain(color: Rgb) -> Self {
        Self { colors: [color; 2], waves: [[0.0; 3]; 2] }
    }

    /// Draws a greyish ground.
    pub(crate) fn ground(rng: &mut Rng) -> Self {
        let grey = rng.random_range(60.0..=170.0);
        let mut color = || [(); 3].map(|()| grey + rng.random_range(-35.0f32..=35.0));
        let colors = [color(), color()];
        Self { colors, waves: waves(20.0..=80.0, rng) }
    }

    /// Draws two shades of the category's hue; lengths are in units of the figure's radius.
    pub(crate) fn of(category: usize, rng: &mut Rng) -> Self {
        let hue = category as f32 + rng.random_range(-0.3..=0.3);
        let saturation = rng.random_range(0.55f32..=0.9);
        let value = rng.random_range(120.0f32..=240.0);
        let color = |value: f32| {
            [0.0, 4.0, 2.0].map(|shift| {
                let wave = ((hue + shift).rem_euclid(6.0) - 3.0).abs() - 1.0;
                value * (1.0 - saturation * (1.0 - wave.clamp(0.0, 1.0)))
            })
        };
        let colors = [color(value), color(value * rng.random_range(0.6..=0.95))];
        Self { colors, waves: waves(0.6..=2.5, rng) }
    }

    fn at(&self, x: f32, y: f32) -> Rgb {
        let swing: f32 = self.waves.iter().map(|[u, v, phase]| (u * x + v * y + phase).sin()).sum();
        mix(self.colors[0], self.colors[1], 0.5 + 0.25 * swing)
    }
}

fn waves(period: RangeInclusive<f32>, rng: &mut Rng) -> [[f32; 3]; 2] {
    [(); 2].map(|()| {
        let frequency = TAU / rng.random_range(period.clone());
        let (sin, cos) = rng.random_range(0.0..=TAU).sin_cos();
        [frequency * cos, frequency * sin, rng.random_range(0.0..=TAU)]
    })
}

fn mix(a: Rgb, b: Rgb, t: f32) -> Rgb {
    [0, 1, 2].map(|channel| a[channel] + t * (b[channel] - a[channel]))
}

/// Picture before noise is added.
#[derive(Clone, Debug)]
pub(crate) struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
}

impl Canvas {
    pub(crate) fn new(width: usize, height: usize, ground: &Surface) -> Self {
        let at = |index: usize| ground.at((index % width) as f32, (index / width) as f32);
        Self { width, height, pixels: (0..width * height).map(at).collect() }
    }

    /// Paints a figure over the picture. The surface's origin is `center`, and its unit of length is `radius`.
    pub(crate) fn paint(&mut self, mask: &Mask, surface: &Surface, center: Point, radius: f32) {
        for (x, y, cover) in mask.inside(self.width, self.height) {
            let at = [x as f32 + 0.5 - center[0], y as f32 + 0.5 - center[1]].map(|length| length / radius);
            let pixel = &mut self.pixels[y * self.width + x];
            *pixel = mix(*pixel, surface.at(at[0], at[1]), cover);
        }
    }

    /// Adds uniform noise of at most `noise` levels either way, and rounds.
    pub(crate) fn expose(&self, noise: f32, rng: &mut Rng) -> Image {
        let levels = self.pixels.iter().flatten();
        let pixels = levels.map(|level| (level + rng.random_range(-noise..=noise)).round() as u8).collect();
        Image { width: self.width, height: self.height, pixels }
    }
}

/// Draws a number whose logarithm is uniform.
pub(crate) fn log_uniform(range: &RangeInclusive<f32>, rng: &mut Rng) -> f32 {
    rng.random_range(range.start().ln()..=range.end().ln()).exp()
}

/// Refuses the first field that is not valid.
///
/// # Errors
/// [`Error::Argument`] with the name of the field and the valid values.
pub(crate) fn check<const N: usize>(what: &str, fields: [(&'static str, bool, &str); N]) -> Result<()> {
    match fields.into_iter().find(|(_, valid, _)| !valid) {
        Some((name, _, must)) => Err(Error::Argument { name, detail: format!("of {what} must {must}") }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_area_of_their_figures() {
        let square = [[-3.25, 2.5], [4.5, 2.5], [4.5, 9.75], [-3.25, 9.75]];
        let area: f32 = Mask::new(&square).cover.iter().sum();
        assert!((area - 7.75 * 7.25).abs() < 1e-3, "{area}");
        let area: f32 = Mask::new(&place(&regular(48, 1.0), [20.3, 7.7], 9.0)).cover.iter().sum();
        assert!((area / (81.0 * 0.5 * TAU) - 1.0).abs() < 0.01, "{area}");
        // The waist of two triangles that meet there is empty.
        let mask = Mask::new(&[[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]]);
        assert!(mask.cover[0] == 0.0 || mask.cover[4 * 8] == 0.0);
        assert!((mask.cover.iter().sum::<f32>() - 32.0).abs() < 0.5);
    }

    #[test]
    fn what_lies_outside_the_image_is_left_out() {
        let mask = Mask::new(&place(&regular(48, 1.0), [0.0, 5.0], 4.0));
        let inside = mask.inside(10, 10).map(|(.., cover)| cover).sum::<f32>();
        assert!((inside / mask.cover.iter().sum::<f32>() - 0.5).abs() < 1e-3);
        assert!(mask.inside(3, 4).all(|(x, y, _)| x < 3 && y < 4));
    }

    #[test]
    fn figures_lie_in_the_unit_disc() {
        let mut rng = ebm_base::Key::new(1).rng();
        for category in (0..FIGURES.len()).cycle().take(60) {
            let corners = figure(category, &mut rng);
            assert!(corners.iter().all(|[x, y]| x.hypot(*y) < 1.001), "{}", FIGURES[category]);
        }
    }
}
