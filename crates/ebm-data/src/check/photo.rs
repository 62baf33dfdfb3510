//! Whether an image file is a whole photograph in three colours of 8 bits.

use std::path::Path;

use crate::decode::{DecodeLimits, decode_image, is_truncated, jpeg_components};
use crate::error::{Error, Result};
use crate::files::read_limited;
use crate::quarantine::{DefectCode, Finding};

/// What is wrong with the image at `path`, of which the annotation tells `size`, columns and rows.
///
/// # Errors
/// [`Error::Io`] where the machine fails; a missing file is a finding.
pub(super) fn check(path: &Path, size: Option<(usize, usize)>, decode: bool) -> Result<Vec<Finding>> {
    if !path.is_file() {
        return Ok(vec![Finding::new(DefectCode::MissingFile, path.display().to_string())]);
    }
    if !decode {
        return Ok(Vec::new());
    }
    let limits = DecodeLimits::default();
    let bytes = match read_limited(path, limits.max_file_bytes) {
        Ok(bytes) => bytes,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(error) => return Ok(vec![Finding::new(DefectCode::UnreadableImage, error.to_string())]),
    };
    if bytes.is_empty() {
        return Ok(vec![Finding::new(DefectCode::EmptyFile, path.display().to_string())]);
    }
    let image = match decode_image(&bytes, path, &limits) {
        Ok(image) => image,
        Err(error) => {
            let cut = is_truncated(&bytes);
            let code = if cut { DefectCode::TruncatedImage } else { DefectCode::UnreadableImage };
            return Ok(vec![Finding::new(code, error.to_string())]);
        }
    };
    let mut found = Vec::new();
    if let Some((width, height)) = size.filter(|size| *size != (image.width, image.height)) {
        let detail = format!("{width}x{height} annotated, {}x{} in the file", image.width, image.height);
        found.push(Finding::new(DefectCode::SizeMismatch, detail));
    }
    if let Some(kind) = unusual(&bytes) {
        found.push(Finding::new(DefectCode::NotRgb8, format!("{}: {kind}", path.display())));
    }
    Ok(found)
}

/// What kind of pixels a file has that are not three colours of 8 bits; palettes of such colours are as good.
fn unusual(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(b"\x89PNG") {
        let (&depth, &colour) = (bytes.get(24)?, bytes.get(25)?);
        return match (colour, depth) {
            (2, 8) | (3, _) => None,
            (0 | 4, _) => Some(format!("grey{}, {depth} bits", if colour == 4 { " with alpha" } else { "" })),
            (6, _) => Some(format!("colour with alpha, {depth} bits")),
            _ => Some(format!("{depth} bits")),
        };
    }
    match jpeg_components(bytes)? {
        3 => None,
        1 => Some("grey".to_owned()),
        4 => Some("CMYK".to_owned()),
        components => Some(format!("{components} components")),
    }
}
