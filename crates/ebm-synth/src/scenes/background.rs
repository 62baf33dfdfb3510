//! What lies behind the objects.

use ebm_seed::{Key, Rng};
use rand::Rng as _;

use super::appearance::Appearance;
use super::config::SceneConfig;
use super::layout::Placed;
use crate::drawing::layer::Canvas;
use crate::drawing::noise::fractal_field;
use crate::drawing::shape::Silhouette;
use crate::drawing::texture::{Rgb, Texture, mix, random_color};

/// The distribution of backgrounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Background {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// How much the colours differ, 0..=1.
    pub(crate) clutter: f32,
    /// The most figures of clutter.
    pub(crate) figures: u64,
    /// The length that their sizes are relative to.
    pub(crate) side: f32,
}

impl Background {
    pub(crate) fn of_scene(config: &SceneConfig) -> Self {
        let SceneConfig { width, height, clutter, .. } = *config;
        let figures = (24.0 * clutter).round() as u64;
        Self { width, height, clutter, figures, side: width.min(height) as f32 }
    }

    /// Three colours mixed by two fields of noise, often under a faint pattern, and clutter over them.
    pub(crate) fn paint(&self, key: Key) -> Canvas {
        let mut rng = key.split("field").rng();
        let base = random_color(&mut rng);
        let spread = 0.25 + 0.6 * self.clutter;
        let [second, third] =
            [(); 2].map(|()| mix(base, random_color(&mut rng), spread * rng.random_range(0.3..=1.0)));
        let cell = rng.random_range(14.0f32..=60.0);
        let coarse = fractal_field(self.width, self.height, cell, 4, rng.random());
        let fine = fractal_field(self.width, self.height, 1.4 * cell, 2, rng.random());
        // Stretching around the middle uses the colours' whole range: averages of octaves crowd there.
        let stretch = |value: f32| (2.2 * (value - 0.5) + 0.5).clamp(0.0, 1.0);
        let colors =
            coarse.iter().zip(&fine).map(|(&a, &b)| mix(mix(base, second, stretch(a)), third, stretch(b)));
        let mut pixels: Vec<Rgb> = colors.collect();
        if rng.random_bool(0.6 * f64::from(self.clutter)) {
            let wallpaper = Texture::draw(base, rng.random_range(8.0..=24.0), 1.0, &mut rng);
            let strength = rng.random_range(0.1..=0.45);
            for (index, pixel) in pixels.iter_mut().enumerate() {
                let at = [(index % self.width) as f32, (index / self.width) as f32];
                *pixel = mix(*pixel, wallpaper.color(at), strength);
            }
        }
        let mut canvas = Canvas { width: self.width, height: self.height, pixels };
        self.add_clutter(&mut canvas, key);
        canvas
    }

    fn add_clutter(&self, canvas: &mut Canvas, key: Key) {
        let size = (self.width, self.height);
        let count = key.split("count").rng().random_range(self.figures / 3..=self.figures);
        for index in 0..count {
            let mut rng = key.split("clutter").index(index).rng();
            let (figure, scale) = draw_clutter(self.side, &mut rng);
            let at = [rng.random_range(0.0..=self.width as f32), rng.random_range(0.0..=self.height as f32)];
            let item = Placed::new(None, figure.translated(at), scale, size);
            Appearance::of_clutter(&item, canvas, 1.6, &mut rng).draw(&item, canvas, [0.0, 0.0]);
        }
    }
}

fn draw_clutter(side: f32, rng: &mut Rng) -> (Silhouette, f32) {
    if rng.random_bool(0.6) {
        let half_width = side * rng.random_range(0.004..=0.02);
        (Silhouette::strip(side * rng.random_range(0.1..=0.45), half_width, rng), half_width)
    } else {
        let scale = side * rng.random_range(0.03..=0.12);
        (Silhouette::patch(scale, rng), scale)
    }
}
