//! Lines of text in a picture.

use anyhow::{Context as _, Result};
use ebm_data::Image;
use plotters_backend::BackendColor;

use super::{bitmap::Bitmap, canvas::Canvas, text::TextStyle};

/// A line of text with its upper left corner at `position`; its em measures `em` pixels.
pub struct Label {
    pub text: String,
    pub position: (i32, i32),
    pub em: f64,
    pub colour: [u8; 3],
}

/// `image` with the labels written over it.
pub fn labelled(image: Image, labels: &[Label]) -> Result<Image> {
    let mut bitmap = Bitmap::over(image);
    let mut canvas = Canvas::new(&mut bitmap);
    for label in labels {
        let style = TextStyle::new(label.em, opaque(label.colour));
        canvas.text(&label.text, label.position, style)?;
    }
    canvas.finish()?;
    Ok(bitmap.into_image())
}

/// The width of a label with this text, in pixels.
pub fn label_width(text: &str, em: f64) -> Result<f64> {
    TextStyle::new(em, opaque([0; 3])).width(text).context("the embedded font")
}

fn opaque([red, green, blue]: [u8; 3]) -> BackendColor {
    BackendColor { alpha: 1.0, rgb: (red, green, blue) }
}
