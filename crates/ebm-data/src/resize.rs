//! Resizing in the conventions that published detectors were trained with.
//!
//! All resize columns first, as the libraries do, and a few rows at a time: a row goes on as soon as it is
//! complete, while it is in the cache, and the image in between never exists as a whole.

mod filtered;
mod taps;
mod unfiltered;

pub(crate) use filtered::Filtered;
use taps::Filter;
pub(crate) use taps::{Neighbours, neighbours};
pub(crate) use unfiltered::{Unfiltered, Window};

use crate::image::Image;

/// Resizes as Pillow's `Image.resize((width, height), BILINEAR)` does, to the last bit: columns first,
/// rounded to 8 bits, then rows; antialiased when reducing. Sides must be positive.
pub fn resize_pillow(image: &Image, width: usize, height: usize) -> Image {
    resize(image, Filter::Bilinear, width, height)
}

/// The same with Pillow's filter `BOX`: the mean of the samples that an output sample covers, each as a whole
/// or not at all.
pub fn resize_pillow_box(image: &Image, width: usize, height: usize) -> Image {
    resize(image, Filter::Box, width, height)
}

fn resize(image: &Image, filter: Filter, width: usize, height: usize) -> Image {
    let mut pixels = Vec::with_capacity(3 * width * height);
    Filtered::new(filter).resize(image, (height, width), false, |_, row| {
        pixels.extend(row.iter().flat_map(|&[red, green, blue, _]| [red, green, blue]));
    });
    Image { width, height, pixels }
}
