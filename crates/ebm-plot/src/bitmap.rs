//! Drawing on pixels: a plotters backend for an image, and text in an embedded font.

use ab_glyph::{Font as _, FontRef, PxScale, ScaleFont as _, point};
use ebm_data::Image;
use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color as _, RGBAColor, RGBColor, TextStyle};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};

use super::{Error, Result};

/// Font families for a viewer of the SVG: the embedded one, one of nearly equal widths, any.
const FAMILIES: &str = "DejaVu Sans, Verdana, sans-serif";
/// Ratio of plotters' font size to the em.
const SIZE_PER_EM: f64 = 1.24;

/// Returns a style for text with an em of `em` pixels, with its upper left corner at its position.
pub fn style(em: f64, colour: impl Into<RGBAColor>) -> TextStyle<'static> {
    let font = TextStyle::from((FAMILIES, em * SIZE_PER_EM));
    TextStyle { color: colour.into().to_backend_color(), ..font }
}

/// Calls `ink` with each pixel of a line of text, counted from the left end of its base line, and the pixel's coverage
/// in \[0, 1\]. Returns the width of the line.
fn glyphs(text: &str, em: f64, mut ink: impl FnMut(BackendCoord, f64)) -> Result<f64> {
    let font = FontRef::try_from_slice(dejavu::sans::regular())?;
    let scale = PxScale::from(em as f32 / font.units_per_em().unwrap_or(1.0) * font.height_unscaled());
    let scaled = font.as_scaled(scale);
    let (mut x, mut previous) = (0.0, None);
    for id in text.chars().map(|c| font.glyph_id(c)) {
        x += previous.map_or(0.0, |previous| scaled.kern(previous, id));
        if let Some(outline) = font.outline_glyph(id.with_scale_and_position(scale, point(x, 0.0))) {
            let corner = outline.px_bounds().min;
            outline.draw(|right, down, coverage| {
                let at = (corner.x as i32 + right as i32, corner.y as i32 + down as i32);
                ink(at, f64::from(coverage.min(1.0)));
            });
        }
        x += scaled.h_advance(id);
        previous = Some(id);
    }
    Ok(f64::from(x))
}

/// Returns the width of a label with this text, in pixels.
///
/// # Errors
/// Fails if the embedded font cannot be read.
pub fn label_width(text: &str, em: f64) -> Result<f64> {
    glyphs(text, em, |_, _| {})
}

/// A plotters backend that draws on an image.
pub struct Bitmap<'a>(pub &'a mut Image);

type Drawn = Result<(), DrawingErrorKind<Error>>;

impl DrawingBackend for Bitmap<'_> {
    type ErrorType = Error;

    fn get_size(&self) -> (u32, u32) {
        (self.0.width as u32, self.0.height as u32)
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, BackendColor { alpha, rgb }: BackendColor) -> Drawn {
        let (width, height) = (self.0.width as i32, self.0.height as i32);
        if (0..width).contains(&x) && (0..height).contains(&y) {
            let at = 3 * (y as usize * self.0.width + x as usize);
            let paint = [rgb.0, rgb.1, rgb.2];
            if alpha == 1.0 {
                self.0.pixels[at..at + 3].copy_from_slice(&paint);
                return Ok(());
            }
            for (value, paint) in self.0.pixels[at..at + 3].iter_mut().zip(paint) {
                *value = (f64::from(*value) * (1.0 - alpha) + f64::from(paint) * alpha).round() as u8;
            }
        }
        Ok(())
    }

    /// Draws segments with round joints: plotters' outline of a whole path has holes where the path turns sharply.
    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let path: Vec<_> = path.into_iter().collect();
        for ends in path.windows(2) {
            self.draw_line(ends[0], ends[1], style)?;
        }
        for &joint in path.iter().skip(1).take(path.len().saturating_sub(2)) {
            self.draw_circle(joint, style.stroke_width() / 2, &style.color(), true)?;
        }
        Ok(())
    }

    /// Draws text where plotters' SVG writer puts it.
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x0, y0): BackendCoord) -> Drawn {
        let em = style.size() / SIZE_PER_EM;
        let right = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -0.5,
            HPos::Right => -1.0,
        };
        let right = right * label_width(text, em).map_err(DrawingErrorKind::DrawingError)?;
        let down = match style.anchor().v_pos {
            VPos::Top => 0.76 * em,
            VPos::Center => 0.27 * em,
            VPos::Bottom => -0.27 * em,
        };
        let ink = |(x, y): BackendCoord, coverage| {
            let (x, y) = style.transform().transform(x + right.round() as i32, y + down.round() as i32);
            // Pixels outside of the image are left out.
            let _ = self.draw_pixel((x0 + x, y0 + y), style.color().mix(coverage));
        };
        glyphs(text, em, ink).map_err(DrawingErrorKind::DrawingError)?;
        Ok(())
    }
}

/// A line of text with its upper left corner at `position`; its em measures `em` pixels.
pub struct Label {
    /// Text of a single line.
    pub text: String,
    /// Position of the upper left corner, x and y in pixels.
    pub position: (i32, i32),
    /// Em of the font in pixels.
    pub em: f64,
    /// Colour of the text, RGB.
    pub colour: [u8; 3],
    /// Colour of a box behind the text, RGB; none draws the text on the image itself.
    pub ground: Option<[u8; 3]>,
}

/// Writes the labels over `image`.
///
/// # Errors
/// Fails if the embedded font cannot be read.
pub fn labelled(mut image: Image, labels: &[Label]) -> Result<Image> {
    let opaque = |[red, green, blue]: [u8; 3]| RGBColor(red, green, blue);
    let mut bitmap = Bitmap(&mut image);
    for Label { text, position: (x, y), em, colour, ground } in labels {
        if let Some(ground) = ground {
            let [margin, height] = [0.25, 1.2].map(|part| (part * em).round() as i32);
            let right = x + label_width(text, *em)?.ceil() as i32 + margin;
            let ground = opaque(*ground).to_backend_color();
            bitmap.draw_rect((x - margin, *y), (right - 1, y + height - 1), &ground, true).map_err(failed)?;
        }
        bitmap.draw_text(text, &style(*em, opaque(*colour)), (*x, *y)).map_err(failed)?;
    }
    Ok(image)
}

fn failed(error: DrawingErrorKind<Error>) -> Error {
    Error::Drawing(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns columns and rows of the pixels that `text` covers by more than half.
    fn covered(text: &str, em: f64) -> Vec<BackendCoord> {
        let mut pixels = Vec::new();
        glyphs(text, em, |at, coverage| pixels.extend((coverage > 0.5).then_some(at))).unwrap();
        pixels
    }

    #[test]
    fn glyphs_stand_on_the_base_line_within_their_width() {
        let (pixels, width) = (covered("HH", 100.0), label_width("HH", 100.0).unwrap());
        assert!(pixels.iter().all(|(x, _)| (0..width as i32).contains(x)));
        // DejaVu Sans: capitals are 0.729 em high and an H is 0.752 em wide.
        assert_eq!(pixels.iter().map(|(_, y)| *y).min(), Some(-73));
        assert_eq!(pixels.iter().map(|(_, y)| *y).max(), Some(-1));
        assert!((width - 150.4).abs() < 0.2, "{width}");
    }

    #[test]
    fn blanks_and_unknown_characters_are_no_error() {
        assert!(covered(" ", 20.0).is_empty());
        assert!(!covered("\u{10ffff}", 20.0).is_empty());
    }

    #[test]
    fn lines_have_their_width_in_every_direction_and_close_their_corners() {
        let area = |path: &[BackendCoord], width: u32| {
            let mut image = Image::filled(80, 80, [255; 3]).unwrap();
            let black = plotters::style::ShapeStyle {
                color: RGBColor(0, 0, 0).into(),
                filled: false,
                stroke_width: width,
            };
            Bitmap(&mut image).draw_path(path.iter().copied(), &black).unwrap();
            image.pixels.chunks_exact(3).map(|pixel| 1.0 - f64::from(pixel[0]) / 255.0).sum::<f64>()
        };
        for to in [(60, 10), (10, 60), (50, 40)] {
            let covered = area(&[(10, 10), to], 8);
            assert!((covered / 400.0 - 1.0).abs() < 0.25, "{to:?} {covered}");
        }
        // Strokes of 640 each have 64 in common, and a quarter of a disc of the radius 8 fills the corner.
        let corner = area(&[(10, 10), (50, 10), (50, 50)], 16);
        assert!((corner / (1216.0 + 16.0 * std::f64::consts::PI) - 1.0).abs() < 0.1, "{corner}");
    }

    #[test]
    fn what_is_outside_is_cut_off() {
        let mut image = Image::filled(10, 10, [255; 3]).unwrap();
        Bitmap(&mut image).draw_rect((-100, 4), (1000, 5), &RGBColor(0, 0, 0), true).unwrap();
        Bitmap(&mut image).draw_pixel((-1, 3), RGBColor(0, 0, 0).to_backend_color()).unwrap();
        assert_eq!(image.pixels.iter().filter(|value| **value == 0).count(), 60);
    }
}
