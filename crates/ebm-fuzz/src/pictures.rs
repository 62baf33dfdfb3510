//! JPEG, PNG, BMP and WebP.

use std::path::Path;

use ebm_data::decode::{DecodeLimits, read_image_limited};

use crate::{Refusal, Target, alone};

pub const TARGETS: &[Target] = &[
    Target { name: "jpeg", file: "a.jpg", seeds: jpegs, prepare: alone, read },
    Target { name: "png", file: "a.png", seeds: pngs, prepare: alone, read },
    Target { name: "bmp", file: "a.bmp", seeds: bmps, prepare: alone, read },
    Target { name: "webp", file: "a.webp", seeds: webps, prepare: alone, read },
];

fn jpegs() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-data/tests/golden/images/rgb_420.jpg").to_vec(),
        include_bytes!("../../ebm-data/tests/golden/images/progressive.jpg").to_vec(),
        include_bytes!("../../ebm-data/tests/golden/images/cmyk.jpg").to_vec(),
    ]
}

fn pngs() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-data/tests/golden/images/rgb.png").to_vec(),
        include_bytes!("../../ebm-data/tests/golden/images/palette.png").to_vec(),
        include_bytes!("../../ebm-data/tests/golden/images/grey16.png").to_vec(),
    ]
}

fn bmps() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-data/tests/golden/images/rgba.bmp").to_vec(),
        include_bytes!("../../ebm-data/tests/golden/images/palette.bmp").to_vec(),
    ]
}

fn webps() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../ebm-data/tests/golden/images/rgba.webp").to_vec(),
        include_bytes!("../../ebm-data/tests/golden/images/exif.webp").to_vec(),
    ]
}

/// With less than the usual limits: what is large is slow, and says nothing new.
fn read(path: &Path) -> Result<(), Refusal> {
    let limits = DecodeLimits { max_side: 4096, max_pixels: 1 << 20, ..DecodeLimits::default() };
    Ok(read_image_limited(path, &limits).map(drop)?)
}
