//! Pictures of a run, encoded for a page.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ebm_base::files::read_limited;
use ebm_data::decode::{DecodeLimits, decode_image};

use crate::page::data_uri;

/// A picture in a page.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// Path in the run's folder.
    pub name: String,
    /// Picture as a data URI.
    pub uri: String,
}

/// Pictures that fit in a page, and the reasons for leaving out others.
#[derive(Clone, Debug, Default)]
pub(super) struct Pictures {
    pub shown: Vec<Picture>,
    pub left_out: Vec<String>,
}

/// Largest size of a picture file, in bytes.
const MAX_BYTES: u64 = 4 << 20;
const SVG: &str = "image/svg+xml";

/// Returns the media type of a picture by its name.
fn kind(name: &str) -> Option<&'static str> {
    let ending = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "svg" => Some(SVG),
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        _ => None,
    }
}

/// Returns the names of the pictures among `files`, which are paths in a run. For a figure in several formats it
/// returns the vector graphic.
fn among(files: &[String]) -> Vec<&String> {
    let mut best: BTreeMap<PathBuf, &String> = BTreeMap::new();
    for file in files {
        let Some(kind) = kind(file) else { continue };
        let place = best.entry(Path::new(file).with_extension("")).or_insert(file);
        if kind == SVG {
            *place = file;
        }
    }
    best.into_values().collect()
}

impl Pictures {
    /// Reads the pictures among the `files` of the run in `folder` while they fit in `budget`, in bytes of the page, and
    /// subtracts their sizes from it.
    pub fn read(folder: &Path, files: &[String], budget: &mut usize) -> Self {
        let mut pictures = Self::default();
        for name in among(files) {
            match picture(folder, name) {
                Ok(picture) if picture.uri.len() <= *budget => {
                    *budget -= picture.uri.len();
                    pictures.shown.push(picture);
                }
                Ok(_) => pictures.left_out.push(format!("{name}: the page has no room for it")),
                Err(reason) => pictures.left_out.push(format!("{name}: {reason}")),
            }
        }
        pictures
    }

    /// Returns the picture that a text of the run names, in any format.
    pub fn named(&self, name: &str) -> Option<&Picture> {
        let stem = Path::new(name).with_extension("");
        self.shown.iter().find(|picture| Path::new(&picture.name).with_extension("") == stem)
    }
}

fn picture(folder: &Path, name: &str) -> Result<Picture, String> {
    let limits = DecodeLimits { max_file_bytes: MAX_BYTES, ..DecodeLimits::default() };
    let bytes = read_limited(&folder.join(name), MAX_BYTES).map_err(|error| error.to_string())?;
    let kind = kind(name).ok_or("its name has no ending of a picture")?;
    if kind != SVG {
        decode_image(&bytes, Path::new(name), &limits).map_err(|error| error.to_string())?;
    } else if !String::from_utf8_lossy(&bytes).contains("<svg") {
        return Err("it is no drawing".to_owned());
    }
    Ok(Picture { name: name.to_owned(), uri: data_uri(kind, &bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebm_data::Image;

    #[test]
    fn a_figure_in_two_formats_is_one() {
        let files = ["a.png", "a.svg", "b/c.JPG", "model.safetensors"].map(str::to_owned);
        assert_eq!(among(&files), ["a.svg", "b/c.JPG"]);
    }

    #[test]
    fn what_is_no_picture_is_left_out_and_the_budget_holds() {
        let dir = tempfile::tempdir().unwrap();
        let small = Image::filled(4, 4, [200, 0, 0]).unwrap();
        ebm_data::encode::write_png(&dir.path().join("small.png"), &small).unwrap();
        std::fs::write(dir.path().join("torn.png"), b"\x89PNG\r\n\x1a\n").unwrap();
        std::fs::write(dir.path().join("large.svg"), "<svg>".repeat(1 << 20)).unwrap();
        let names = ["large.svg", "small.png", "torn.png"].map(str::to_owned);
        let mut budget = 1 << 20;
        let pictures = Pictures::read(dir.path(), &names, &mut budget);
        let [shown] = &pictures.shown[..] else { panic!("{:?}", pictures.left_out) };
        assert!(shown.uri.starts_with("data:image/png;base64,") && budget == (1 << 20) - shown.uri.len());
        let left_out = &pictures.left_out;
        assert!(
            left_out[0].starts_with("large.svg: ") && left_out[1].starts_with("torn.png: "),
            "{left_out:?}"
        );
        let pictures = Pictures::read(dir.path(), &names[1..2], &mut 30);
        assert!(pictures.left_out[0].contains("no room"), "{:?}", pictures.left_out);
    }
}
