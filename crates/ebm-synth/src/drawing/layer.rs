//! Premultiplied layers and the canvas they are drawn on, in linear light.

use super::mask::Window;
use super::texture::Rgb;

/// What softens an object's edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Blur {
    /// A Gaussian of this standard deviation, in pixels.
    Defocus(f32),
    /// A uniform smear from −v/2 to +v/2, in pixels.
    Motion([f32; 2]),
}

impl Blur {
    /// Standard deviation in pixels, along the motion if it is one.
    pub(crate) fn sigma(self) -> f32 {
        match self {
            Self::Defocus(sigma) => sigma,
            Self::Motion([dx, dy]) => dx.hypot(dy) / 12f32.sqrt(),
        }
    }

    /// How far the blur carries light, in whole pixels.
    pub(crate) fn reach(self) -> f32 {
        match self {
            Self::Defocus(sigma) => (3.0 * sigma).ceil(),
            Self::Motion([dx, dy]) => (0.5 * dx.hypot(dy)).ceil() + 1.0,
        }
    }
}

/// Colours times coverage, and coverage, over a window: `[r·a, g·a, b·a, a]`.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) window: Window,
    pub(crate) pixels: Vec<[f32; 4]>,
}

impl Layer {
    /// A transparent layer.
    pub(crate) fn new(window: Window) -> Self {
        Self { window, pixels: vec![[0.0; 4]; window.len()] }
    }

    /// The layer after a blur; outside the window it counts as transparent.
    pub(crate) fn blurred(self, blur: Blur) -> Self {
        match blur {
            Blur::Defocus(sigma) if sigma > 0.2 => {
                let taps = gaussian_taps(sigma);
                let steps = |dx: f32, dy: f32| {
                    taps.iter().map(move |&(t, w)| ([t * dx, t * dy], w)).collect::<Vec<_>>()
                };
                self.gathered(&steps(1.0, 0.0)).gathered(&steps(0.0, 1.0))
            }
            Blur::Motion([dx, dy]) if dx.hypot(dy) > 0.7 => {
                let count = dx.hypot(dy).ceil() as u16 + 1;
                let weight = 1.0 / f32::from(count);
                let place = |i: u16| (f32::from(i) + 0.5) * weight - 0.5;
                let taps: Vec<_> = (0..count).map(|i| ([place(i) * dx, place(i) * dy], weight)).collect();
                self.gathered(&taps)
            }
            Blur::Defocus(_) | Blur::Motion(_) => self,
        }
    }

    /// Each pixel becomes the weighted sum of the pixels at the given offsets, bilinearly between pixels.
    fn gathered(&self, taps: &[([f32; 2], f32)]) -> Self {
        let window = self.window;
        let mut result = Self::new(window);
        for &([dx, dy], weight) in taps {
            let (column, row) = (dx.floor(), dy.floor());
            let (u, v) = (dx - column, dy - row);
            let (column, row) = (column as i32, row as i32);
            self.add_shifted(&mut result, [column, row], weight * (1.0 - u) * (1.0 - v));
            self.add_shifted(&mut result, [column + 1, row], weight * u * (1.0 - v));
            self.add_shifted(&mut result, [column, row + 1], weight * (1.0 - u) * v);
            self.add_shifted(&mut result, [column + 1, row + 1], weight * u * v);
        }
        result
    }

    fn add_shifted(&self, result: &mut Self, [dx, dy]: [i32; 2], weight: f32) {
        if weight == 0.0 {
            return;
        }
        let window = self.window;
        let (first, last) = ((-dx).max(0), window.width.min(window.width - dx));
        for y in (-dy).max(0)..window.height.min(window.height - dy) {
            if first >= last {
                continue;
            }
            let to = (y * window.width + first) as usize;
            let from = ((y + dy) * window.width + first + dx) as usize;
            let len = (last - first) as usize;
            for (to, from) in result.pixels[to..to + len].iter_mut().zip(&self.pixels[from..from + len]) {
                for c in 0..4 {
                    to[c] += weight * from[c];
                }
            }
        }
    }
}

fn gaussian_taps(sigma: f32) -> Vec<(f32, f32)> {
    let reach = (3.0 * sigma).ceil() as i16;
    let weight = |t: i16| (-0.5 * (f32::from(t) / sigma).powi(2)).exp();
    let total: f32 = (-reach..=reach).map(weight).sum();
    (-reach..=reach).map(|t| (f32::from(t), weight(t) / total)).collect()
}

/// An opaque image in linear light.
#[derive(Clone, Debug)]
pub(crate) struct Canvas {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<Rgb>,
}

impl Canvas {
    /// Draws a layer over the canvas.
    pub(crate) fn draw(&mut self, layer: &Layer) {
        self.blend(layer.window, |pixel, index| {
            let [r, g, b, alpha] = layer.pixels[index];
            for (value, light) in pixel.iter_mut().zip([r, g, b]) {
                *value = *value * (1.0 - alpha) + light;
            }
        });
    }

    /// Visits each pixel of the canvas under a window, with its index there.
    fn blend(&mut self, window: Window, mut visit: impl FnMut(&mut Rgb, usize)) {
        let common = window.intersection(Window::image(self.width, self.height));
        for y in common.y..common.y + common.height {
            for x in common.x..common.x + common.width {
                visit(&mut self.pixels[y as usize * self.width + x as usize], window.offset(x, y));
            }
        }
    }

    /// The mean colour inside a window, on every third pixel of every third row; mid-grey where there is
    /// none.
    pub(crate) fn mean(&self, window: Window) -> Rgb {
        let common = window.intersection(Window::image(self.width, self.height));
        let (mut sum, mut count) = ([0.0; 3], 0.0);
        for y in (common.y..common.y + common.height).step_by(3) {
            for x in (common.x..common.x + common.width).step_by(3) {
                let pixel = self.pixels[y as usize * self.width + x as usize];
                sum = [0, 1, 2].map(|c| sum[c] + pixel[c]);
                count += 1.0;
            }
        }
        if count > 0.0 { sum.map(|value| value / count) } else { [0.214; 3] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blur_keeps_the_light_and_has_the_stated_deviation() {
        let window = Window { x: -3, y: 4, width: 41, height: 41 };
        let mut point = Layer::new(window);
        point.pixels[window.len() / 2] = [0.5, 0.25, 0.125, 1.0];
        for blur in [Blur::Defocus(2.0), Blur::Motion([6.0, 4.5]), Blur::Motion([0.0, -9.0])] {
            let soft = point.clone().blurred(blur);
            let (mut total, mut moments) = (0.0, [0.0f32; 4]);
            for (index, pixel) in soft.pixels.iter().enumerate() {
                let (x, y) = ((index % 41) as f32 - 20.0, (index / 41) as f32 - 20.0);
                total += pixel[3];
                let along = match blur {
                    Blur::Motion([dx, dy]) => (x * dx + y * dy) / dx.hypot(dy),
                    Blur::Defocus(_) => x,
                };
                moments = [
                    moments[0] + pixel[3] * x,
                    moments[1] + pixel[3] * y,
                    moments[2] + pixel[3] * along * along,
                    0.0,
                ];
                assert!((pixel[0] - 0.5 * pixel[3]).abs() < 1e-6);
            }
            assert!((total - 1.0).abs() < 1e-4, "{blur:?} keeps {total}");
            assert!(moments[0].abs() < 1e-3 && moments[1].abs() < 1e-3, "{blur:?} moves {moments:?}");
            assert!(
                (moments[2].sqrt() - blur.sigma()).abs() < 0.15 * blur.sigma(),
                "{blur:?}: {}",
                moments[2].sqrt()
            );
        }
    }

    #[test]
    fn an_opaque_layer_replaces_and_a_transparent_one_does_nothing() {
        let mut canvas = Canvas { width: 2, height: 1, pixels: vec![[0.5; 3]; 2] };
        let mut layer = Layer::new(Window { x: 1, y: -1, width: 3, height: 3 });
        layer.pixels[3] = [0.1, 0.2, 0.3, 1.0];
        canvas.draw(&layer);
        assert_eq!(canvas.pixels, vec![[0.5; 3], [0.1, 0.2, 0.3]]);
    }
}
