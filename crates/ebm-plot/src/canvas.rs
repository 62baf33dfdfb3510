//! The shapes that the figures are made of, on any drawing backend.

use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingBackend, DrawingErrorKind};

use super::{Error, Result, colour::WHITE, text::TextStyle};

/// A backend with few verbs and this crate's errors.
pub struct Canvas<'a, B> {
    backend: &'a mut B,
}

struct Stroke {
    colour: BackendColor,
    width: u32,
}

impl BackendStyle for Stroke {
    fn color(&self) -> BackendColor {
        self.colour
    }

    fn stroke_width(&self) -> u32 {
        self.width
    }
}

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    /// The whole of `backend`.
    pub fn new(backend: &'a mut B) -> Self {
        Self { backend }
    }

    /// Paints everything white.
    pub fn clear(&mut self) -> Result<()> {
        let (width, height) = self.backend.get_size();
        self.rectangle((0, 0), (width as i32, height as i32), WHITE)
    }

    /// A filled rectangle between two corners.
    pub fn rectangle(&mut self, from: BackendCoord, to: BackendCoord, colour: BackendColor) -> Result<()> {
        failing(self.backend.draw_rect(from, to, &colour, true))
    }

    /// A line through `points`, `width` pixels wide.
    pub fn line(&mut self, points: &[BackendCoord], width: u32, colour: BackendColor) -> Result<()> {
        failing(self.backend.draw_path(points.iter().copied(), &Stroke { colour, width }))
    }

    /// A filled polygon.
    pub fn polygon(&mut self, vertices: &[BackendCoord], colour: BackendColor) -> Result<()> {
        failing(self.backend.fill_polygon(vertices.iter().copied(), &colour))
    }

    /// A filled circle.
    pub fn dot(&mut self, centre: BackendCoord, radius: u32, colour: BackendColor) -> Result<()> {
        failing(self.backend.draw_circle(centre, radius, &colour, true))
    }

    /// A line of text with its anchor at `position`.
    pub fn text(&mut self, text: &str, position: BackendCoord, style: TextStyle) -> Result<()> {
        failing(self.backend.draw_text(text, &style, position))
    }

    /// Completes the drawing.
    pub fn finish(self) -> Result<()> {
        failing(self.backend.present())
    }
}

fn failing<T, E>(result: std::result::Result<T, DrawingErrorKind<E>>) -> Result<T>
where
    E: std::error::Error + Send + Sync,
{
    result.map_err(|error| Error::Drawing(error.to_string()))
}
