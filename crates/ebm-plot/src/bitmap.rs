//! A drawing backend on an RGB image, with exact pixel coverage at every edge.

use super::Result;
use std::convert::Infallible;

use ab_glyph_rasterizer::{Rasterizer, point};
use ebm_data::Image;
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingBackend, DrawingErrorKind};

/// Vertices of the polygon that stands for a circle; it strays from a circle of 10 pixels by 0.02 pixels.
const CIRCLE_VERTICES: u32 = 48;
/// A coverage that no stored colour shows.
const NEGLIGIBLE: f32 = 1e-3;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// An image that shapes are drawn into. A coordinate is a corner of pixels and a stroke lies centred on its
/// line, as in SVG.
pub struct Bitmap {
    image: Image,
}

impl Bitmap {
    /// A white image.
    pub fn white(width: u32, height: u32) -> Result<Self> {
        Ok(Self { image: Image::filled(width as usize, height as usize, [255; 3])? })
    }

    /// An image to draw over.
    pub fn over(image: Image) -> Self {
        Self { image }
    }

    /// What has been drawn.
    pub fn into_image(self) -> Image {
        self.image
    }

    /// Fills closed polygons of one orientation as one shape: where they overlap, it is not painted twice.
    fn fill(&mut self, polygons: &[Vec<[f64; 2]>], colour: BackendColor) {
        let (width, height) = (self.image.width as f64, self.image.height as f64);
        // Outside the image there is nothing to cover: vertices there move to its edge.
        let inside = |&[x, y]: &[f64; 2]| [x.clamp(0.0, width), y.clamp(0.0, height)];
        let polygons: Vec<Vec<_>> =
            polygons.iter().map(|vertices| vertices.iter().map(inside).collect()).collect();
        let vertices = || polygons.iter().flatten();
        let low = |axis: usize| vertices().map(|v| v[axis]).fold(f64::INFINITY, f64::min).floor();
        let high = |axis: usize| vertices().map(|v| v[axis]).fold(0.0, f64::max).ceil();
        let (x0, y0) = (low(0), low(1));
        if !(x0 < high(0) && y0 < high(1)) {
            return;
        }
        let mut rasterizer = Rasterizer::new((high(0) - x0) as usize, (high(1) - y0) as usize);
        for vertices in &polygons {
            let placed = |&[x, y]: &[f64; 2]| point((x - x0) as f32, (y - y0) as f32);
            for (from, to) in vertices.iter().zip(vertices.iter().cycle().skip(1)) {
                rasterizer.draw_line(placed(from), placed(to));
            }
        }
        rasterizer.for_each_pixel_2d(|x, y, coverage| {
            // Sums in single precision miss 0 and 1 by a little.
            if coverage > NEGLIGIBLE {
                let coverage = if coverage < 1.0 - NEGLIGIBLE { f64::from(coverage) } else { 1.0 };
                self.blend(x as usize + x0 as usize, y as usize + y0 as usize, colour.mix(coverage));
            }
        });
    }

    fn blend(&mut self, x: usize, y: usize, BackendColor { alpha, rgb: (red, green, blue) }: BackendColor) {
        if alpha > 0.0 && x < self.image.width && y < self.image.height {
            let at = 3 * (y * self.image.width + x);
            if alpha >= 1.0 {
                self.image.pixels[at..at + 3].copy_from_slice(&[red, green, blue]);
                return;
            }
            for (value, paint) in self.image.pixels[at..at + 3].iter_mut().zip([red, green, blue]) {
                *value = (f64::from(*value) * (1.0 - alpha) + f64::from(paint) * alpha).round() as u8;
            }
        }
    }
}

fn vertex((x, y): BackendCoord) -> [f64; 2] {
    [f64::from(x), f64::from(y)]
}

/// A rectangle with the segment as its middle line, one of equal orientation for every direction.
fn stroke([x0, y0]: [f64; 2], [x1, y1]: [f64; 2], width: f64) -> Option<Vec<[f64; 2]>> {
    let length = (x1 - x0).hypot(y1 - y0);
    let (nx, ny) = (-(y1 - y0) / length * width / 2.0, (x1 - x0) / length * width / 2.0);
    (length > 0.0)
        .then(|| vec![[x0 + nx, y0 + ny], [x1 + nx, y1 + ny], [x1 - nx, y1 - ny], [x0 - nx, y0 - ny]])
}

/// A polygon that stands for a circle, of the same orientation as a stroke.
fn disc([x, y]: [f64; 2], radius: f64) -> Vec<[f64; 2]> {
    let angle = |i| -f64::from(i) / f64::from(CIRCLE_VERTICES) * std::f64::consts::TAU;
    (0..CIRCLE_VERTICES).map(|i| [x + radius * angle(i).cos(), y + radius * angle(i).sin()]).collect()
}

impl DrawingBackend for Bitmap {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.image.width as u32, self.image.height as u32)
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Drawn {
        if let (Ok(x), Ok(y)) = (x.try_into(), y.try_into()) {
            self.blend(x, y, colour);
        }
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let path: Vec<_> = path.into_iter().map(vertex).collect();
        let width = f64::from(style.stroke_width());
        let mut shapes: Vec<_> = path.windows(2).filter_map(|ends| stroke(ends[0], ends[1], width)).collect();
        let joints = path.iter().skip(1).take(path.len().saturating_sub(2));
        shapes.extend(joints.map(|&joint| disc(joint, width / 2.0)));
        self.fill(&shapes, style.color());
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        lower_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let ((x0, y0), (x1, y1)) = (upper_left, lower_right);
        let corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)];
        if fill {
            self.fill_polygon(corners, style)
        } else {
            self.draw_path(corners.into_iter().chain([(x0, y0)]), style)
        }
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let rim = disc(vertex(centre), f64::from(radius));
        if fill {
            self.fill(&[rim], style.color());
        } else {
            let width = f64::from(style.stroke_width());
            let ends = rim.iter().zip(rim.iter().cycle().skip(1));
            let strokes: Vec<_> = ends.filter_map(|(&from, &to)| stroke(from, to, width)).collect();
            self.fill(&strokes, style.color());
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        self.fill(&[path.into_iter().map(vertex).collect()], style.color());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: BackendColor = BackendColor { alpha: 1.0, rgb: (0, 0, 0) };

    /// Darkness summed over the image, in pixels.
    fn area(bitmap: &Bitmap) -> f64 {
        bitmap.image.pixels.chunks_exact(3).map(|pixel| 1.0 - f64::from(pixel[0]) / 255.0).sum()
    }

    struct Wide(u32);

    impl BackendStyle for Wide {
        fn color(&self) -> BackendColor {
            BLACK
        }
        fn stroke_width(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn shapes_cover_their_area() {
        let mut bitmap = Bitmap::white(40, 40).unwrap();
        bitmap.draw_rect((3, 4), (13, 10), &BLACK, true).unwrap();
        assert_eq!(area(&bitmap), 60.0);
        bitmap.fill_polygon([(20, 20), (30, 20), (20, 35)], &BLACK).unwrap();
        assert!((area(&bitmap) - 135.0).abs() < 0.2, "{}", area(&bitmap));

        let mut bitmap = Bitmap::white(40, 40).unwrap();
        bitmap.draw_circle((20, 20), 10, &BLACK, true).unwrap();
        assert!((area(&bitmap) - 100.0 * std::f64::consts::PI).abs() < 1.0, "{}", area(&bitmap));
    }

    #[test]
    fn strokes_have_their_width_in_every_direction_and_overlap_once() {
        // A stroke of two pixels on a whole coordinate is sharp.
        let mut bitmap = Bitmap::white(40, 40).unwrap();
        bitmap.draw_line((10, 10), (30, 10), &Wide(2)).unwrap();
        assert!(bitmap.image.pixels.iter().all(|value| [0, 255].contains(value)));
        assert_eq!(area(&bitmap), 40.0);
        for (to, length) in [((30, 10), 20.0), ((10, 30), 20.0), ((26, 22), 20.0), ((10, 2), 8.0)] {
            let mut bitmap = Bitmap::white(40, 40).unwrap();
            bitmap.draw_path([(10, 10), to], &Wide(2)).unwrap();
            assert!((area(&bitmap) - 2.0 * length).abs() < 0.3, "{to:?} {}", area(&bitmap));
        }
        // There and back covers no more than there and the joint.
        let mut bitmap = Bitmap::white(40, 40).unwrap();
        bitmap.draw_path([(10, 10), (30, 10), (10, 10)], &Wide(2)).unwrap();
        assert!((40.0..42.0).contains(&area(&bitmap)), "{}", area(&bitmap));
        // A joint closes the outer corner: all but the part of a square that a quarter of a disc leaves.
        let mut bitmap = Bitmap::white(40, 40).unwrap();
        bitmap.draw_path([(10, 10), (30, 10), (30, 30)], &Wide(10)).unwrap();
        let quarter = 25.0 * std::f64::consts::FRAC_PI_4;
        assert!((area(&bitmap) - (200.0 + 200.0 - 25.0 + quarter)).abs() < 0.3, "{}", area(&bitmap));
    }

    #[test]
    fn what_is_outside_is_cut_off() {
        let mut bitmap = Bitmap::white(10, 10).unwrap();
        bitmap.draw_rect((-100, 4), (1000, 6), &BLACK, true).unwrap();
        bitmap.draw_rect((20, 20), (30, 30), &BLACK, true).unwrap();
        bitmap.draw_pixel((-1, 3), BLACK).unwrap();
        assert_eq!(area(&bitmap), 20.0);
    }
}
