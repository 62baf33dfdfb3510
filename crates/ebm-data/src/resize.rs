//! Resizing in the conventions that published detectors were trained with.
//!
//! All functions resize columns first, as the libraries do, and a few rows at a time. A row is processed further
//! as soon as it is complete, while it is in the cache; the intermediate image is never stored as a whole.

mod filtered;
mod taps;
mod unfiltered;

pub(crate) use filtered::Filtered;
use taps::Filter;
pub(crate) use taps::{Neighbours, neighbours};
pub(crate) use unfiltered::Unfiltered;

use crate::image::Image;

/// Resizes exactly like Pillow's `Image.resize((width, height), BILINEAR)`: columns first, rounded to 8 bits,
/// then rows; antialiased when reducing. Sides must be positive.
pub fn resize_pillow(image: &Image, width: usize, height: usize) -> Image {
    resize(image, Filter::Bilinear, width, height)
}

/// Resizes like Pillow 13 with the filter `BOX`, the mean of the samples that an output sample covers. Each
/// sample counts fully or not at all. Rows come first if the height loses more than twice as many samples as the
/// width, which changes the intermediate rounding; versions before 13 do not do this.
pub fn resize_pillow_box(image: &Image, width: usize, height: usize) -> Image {
    if image.height.saturating_sub(height) > 2 * image.width.saturating_sub(width) {
        return transposed(&resize(&transposed(image), Filter::Box, height, width));
    }
    resize(image, Filter::Box, width, height)
}

/// Returns the transposed image.
fn transposed(image: &Image) -> Image {
    let Image { width, height, pixels } = image;
    let mut turned = Vec::with_capacity(pixels.len());
    for x in 0..*width {
        for y in 0..*height {
            turned.extend_from_slice(&pixels[3 * (y * width + x)..][..3]);
        }
    }
    Image { width: *height, height: *width, pixels: turned }
}

fn resize(image: &Image, filter: Filter, width: usize, height: usize) -> Image {
    let mut pixels = Vec::with_capacity(3 * width * height);
    Filtered::new(filter).resize(image, (height, width), false, |_, row| {
        pixels.extend(row.iter().flat_map(|&[red, green, blue, _]| [red, green, blue]));
    });
    Image { width, height, pixels }
}
