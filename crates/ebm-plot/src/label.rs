//! Lines of text in a picture.

use ebm_data::Image;
use plotters_backend::BackendColor;

use super::{Result, bitmap::Bitmap, canvas::Canvas, text::TextStyle};

/// A line of text with its upper left corner at `position`; its em measures `em` pixels.
pub struct Label {
    /// One line.
    pub text: String,
    /// x and y in pixels.
    pub position: (i32, i32),
    /// The size of its font in pixels.
    pub em: f64,
    /// RGB.
    pub colour: [u8; 3],
    /// What the text stands on; none where the picture is known to differ from its colour.
    pub ground: Option<[u8; 3]>,
}

/// Of the ground below a line, in em.
const HEIGHT: f64 = 1.2;

/// `image` with the labels written over it.
///
/// # Errors
/// When the embedded font cannot be read.
pub fn labelled(image: Image, labels: &[Label]) -> Result<Image> {
    let mut bitmap = Bitmap::over(image);
    let mut canvas = Canvas::new(&mut bitmap);
    for label in labels {
        let style = TextStyle::new(label.em, opaque(label.colour));
        if let Some(ground) = label.ground {
            let (x, y) = label.position;
            let [margin, height] = [0.25, HEIGHT].map(|em| (em * label.em).round() as i32);
            let right = x + style.width(&label.text)?.ceil() as i32 + margin;
            canvas.rectangle((x - margin, y), (right, y + height), opaque(ground))?;
        }
        canvas.text(&label.text, label.position, style)?;
    }
    canvas.finish()?;
    Ok(bitmap.into_image())
}

/// The width of a label with this text, in pixels.
///
/// # Errors
/// When the embedded font cannot be read.
pub fn label_width(text: &str, em: f64) -> Result<f64> {
    Ok(TextStyle::new(em, opaque([0; 3])).width(text)?)
}

fn opaque([red, green, blue]: [u8; 3]) -> BackendColor {
    BackendColor { alpha: 1.0, rgb: (red, green, blue) }
}
