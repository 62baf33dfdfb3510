//! Text with an embedded font, so that a bitmap looks the same on every machine.

use ab_glyph::{
    Font as _, FontRef, InvalidFont, Outline, OutlineCurve, OutlinedGlyph, PxScale, ScaleFont as _, point,
};
use plotters_backend::{
    BackendColor, BackendCoord, BackendTextStyle, FontFamily, FontStyle, FontTransform,
    text_anchor::{HPos, Pos, VPos},
};

/// Families for a viewer of the SVG: the embedded one, one of nearly equal widths, any.
const FAMILIES: &str = "DejaVu Sans, Verdana, sans-serif";
/// plotters' font size is this many times the em.
const SIZE_PER_EM: f64 = 1.24;
/// Height above and depth below the base line that anchors refer to, in em. They put text where plotters' SVG
/// writer puts it.
const ABOVE: f64 = 0.76;
const BELOW: f64 = 0.27;
/// Horizontal shift per height of slanted text, the tangent of 11 degrees.
const SLANT: f32 = 0.194;

/// Size, colour and placement of a line of text.
#[derive(Clone, Copy)]
pub struct TextStyle {
    em: f64,
    colour: BackendColor,
    anchor: (HPos, VPos),
    italic: bool,
}

impl TextStyle {
    /// Text whose em measures `em` pixels, with its upper left corner at its position.
    pub fn new(em: f64, colour: BackendColor) -> Self {
        Self { em, colour, anchor: (HPos::Left, VPos::Top), italic: false }
    }

    /// Another point of the text at its position.
    pub fn anchored(self, horizontal: HPos, vertical: VPos) -> Self {
        Self { anchor: (horizontal, vertical), ..self }
    }

    /// Slanted, for names of variables.
    pub fn italic(self) -> Self {
        Self { italic: true, ..self }
    }

    /// The width of `text` in pixels.
    pub fn width(&self, text: &str) -> Result<f64, InvalidFont> {
        self.place(text, |_, _| {})
    }

    /// Calls `each` with the glyphs, from the left end of the base line, and returns the width.
    fn place(&self, text: &str, mut each: impl FnMut(&FontRef, ab_glyph::Glyph)) -> Result<f64, InvalidFont> {
        let font = FontRef::try_from_slice(dejavu::sans::regular())?;
        let unit = self.em as f32 / font.units_per_em().unwrap_or(1.0);
        let scale = PxScale::from(unit * font.height_unscaled());
        let scaled = font.as_scaled(scale);
        let mut x = 0.0;
        let mut previous = None;
        for id in text.chars().map(|c| font.glyph_id(c)) {
            x += previous.map_or(0.0, |previous| scaled.kern(previous, id));
            each(&font, id.with_scale_and_position(scale, point(x, 0.0)));
            x += scaled.h_advance(id);
            previous = Some(id);
        }
        Ok(f64::from(x))
    }
}

impl BackendTextStyle for TextStyle {
    type FontError = InvalidFont;

    fn color(&self) -> BackendColor {
        self.colour
    }

    fn size(&self) -> f64 {
        self.em * SIZE_PER_EM
    }

    fn transform(&self) -> FontTransform {
        FontTransform::None
    }

    fn style(&self) -> FontStyle {
        if self.italic { FontStyle::Italic } else { FontStyle::Normal }
    }

    fn anchor(&self) -> Pos {
        Pos::new(self.anchor.0, self.anchor.1)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::Name(FAMILIES)
    }

    fn layout_box(&self, text: &str) -> Result<(BackendCoord, BackendCoord), InvalidFont> {
        let pixels = |em: f64| (em * self.em).round() as i32;
        Ok(((0, -pixels(ABOVE)), (self.width(text)?.round() as i32, pixels(BELOW))))
    }

    fn draw<E, DrawFunc: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        text: &str,
        (x0, y0): BackendCoord,
        mut draw: DrawFunc,
    ) -> Result<Result<(), E>, InvalidFont> {
        let mut result = Ok(());
        self.place(text, |font, glyph| {
            // A blank has no outline.
            let Some(outline) = font.outline(glyph.id) else { return };
            let outline = if self.italic { slanted(outline) } else { outline };
            let factor = font.as_scaled(glyph.scale).scale_factor();
            let drawn = OutlinedGlyph::new(glyph, outline, factor);
            let corner = drawn.px_bounds().min;
            drawn.draw(|x, y, coverage| {
                if result.is_ok() && coverage > 0.0 {
                    let (x, y) = (x0 + corner.x as i32 + x as i32, y0 + corner.y as i32 + y as i32);
                    result = draw(x, y, self.colour.mix(f64::from(coverage.min(1.0))));
                }
            });
        })?;
        Ok(result)
    }
}

/// `outline` leaning to the right.
fn slanted(mut outline: Outline) -> Outline {
    let lean = |p: ab_glyph::Point| point(p.x + SLANT * p.y, p.y);
    for curve in &mut outline.curves {
        *curve = match *curve {
            OutlineCurve::Line(a, b) => OutlineCurve::Line(lean(a), lean(b)),
            OutlineCurve::Quad(a, b, c) => OutlineCurve::Quad(lean(a), lean(b), lean(c)),
            OutlineCurve::Cubic(a, b, c, d) => OutlineCurve::Cubic(lean(a), lean(b), lean(c), lean(d)),
        };
    }
    // The corners of the old bounds, leant, enclose the leant outline.
    let (low, high) =
        (outline.bounds.min.y.min(outline.bounds.max.y), outline.bounds.min.y.max(outline.bounds.max.y));
    outline.bounds.min.x += SLANT * low;
    outline.bounds.max.x += SLANT * high;
    outline
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: BackendColor = BackendColor { alpha: 1.0, rgb: (0, 0, 0) };

    /// Columns and rows of the pixels that `text` covers by more than half.
    fn ink(style: TextStyle, text: &str) -> Vec<(i32, i32)> {
        let mut pixels = Vec::new();
        let drawn = style.draw(text, (0, 0), |x, y, colour| {
            pixels.extend((colour.alpha > 0.5).then_some((x, y)));
            Ok::<(), ()>(())
        });
        assert!(drawn.unwrap().is_ok());
        pixels
    }

    #[test]
    fn glyphs_stand_on_the_base_line_within_their_width() {
        let style = TextStyle::new(100.0, BLACK);
        let pixels = ink(style, "HH");
        let ((x0, y0), (x1, y1)) = style.layout_box("HH").unwrap();
        assert!(pixels.iter().all(|(x, y)| (x0..x1).contains(x) && (y0..y1).contains(y)));
        // DejaVu Sans: capitals are 0.729 em high and an H is 0.752 em wide.
        assert_eq!(pixels.iter().map(|(_, y)| *y).min(), Some(-73));
        assert_eq!(pixels.iter().map(|(_, y)| *y).max(), Some(-1));
        assert!((style.width("HH").unwrap() - 150.4).abs() < 0.2, "{:?}", style.width("HH"));
    }

    #[test]
    fn italic_text_leans_to_the_right() {
        let top =
            |style| ink(style, "l").into_iter().filter(|(_, y)| *y < -60).map(|(x, _)| x).max().unwrap();
        let foot =
            |style| ink(style, "l").into_iter().filter(|(_, y)| *y > -10).map(|(x, _)| x).max().unwrap();
        let upright = TextStyle::new(100.0, BLACK);
        assert_eq!(top(upright), foot(upright));
        assert!((12..16).contains(&(top(upright.italic()) - foot(upright.italic()))));
    }

    #[test]
    fn blanks_and_unknown_characters_are_no_error() {
        assert!(ink(TextStyle::new(20.0, BLACK), " ").is_empty());
        assert!(!ink(TextStyle::new(20.0, BLACK), "\u{10ffff}").is_empty());
    }
}
