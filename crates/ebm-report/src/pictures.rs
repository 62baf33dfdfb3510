//! The pictures of a run, as they can stand in a page.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ebm_data::decode::{DecodeLimits, decode_image};
use ebm_data::encode::encode_jpeg;
use ebm_data::resize::resize_pillow;
use ebm_files::read_limited;
use ebm_page::data_uri;

/// A picture in a page.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its path in the run's folder.
    pub name: String,
    /// Its bytes as an address.
    pub uri: String,
    /// What was done to it.
    pub note: Option<String>,
}

/// The pictures that a page has room for, and what is to be said of the others.
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    /// Those that are shown, in the order of their files.
    pub shown: Vec<Picture>,
    /// Why the others are not.
    pub left_out: Vec<String>,
}

/// A file of at most so many bytes stands in a page as it is.
const WHOLE: usize = 600 << 10;
/// The longer side of a smaller copy, in pixels.
const SIDE: usize = 1024;
const QUALITY: u8 = 82;

/// The endings of pictures' names, with their media types.
const KINDS: [[&str; 2]; 4] =
    [["svg", "image/svg+xml"], ["png", "image/png"], ["jpg", "image/jpeg"], ["jpeg", "image/jpeg"]];

fn kind(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    KINDS.iter().find(|[known, _]| *known == ending).map(|[_, kind]| *kind)
}

/// The names of the pictures among `files`, which are paths in a run. Of a figure in several formats one is taken,
/// the vector graphic.
pub fn among(files: &[String]) -> Vec<&String> {
    let mut best: BTreeMap<PathBuf, &String> = BTreeMap::new();
    for file in files.iter().filter(|file| kind(Path::new(file)).is_some()) {
        let is_vector = kind(Path::new(file)) == Some("image/svg+xml");
        let place = best.entry(Path::new(file).with_extension("")).or_insert(file);
        if is_vector {
            *place = file;
        }
    }
    best.into_values().collect()
}

/// Reads the pictures `names` of the run in `folder` as long as `budget`, in bytes of the page, lasts, and takes
/// what they need from it.
pub fn read(folder: &Path, names: &[&String], budget: &mut usize) -> Pictures {
    let mut pictures = Pictures::default();
    for name in names {
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

fn picture(folder: &Path, name: &str) -> Result<Picture, String> {
    let path = folder.join(name);
    let limits = DecodeLimits::default();
    let bytes = read_limited(&path, limits.max_file_bytes).map_err(|error| error.to_string())?;
    let kind = kind(&path).ok_or("its name has no ending of a picture")?;
    let whole = |note| Picture { name: name.to_owned(), uri: data_uri(kind, &bytes), note };
    if kind == "image/svg+xml" {
        let text = std::str::from_utf8(&bytes).map_err(|error| error.to_string())?;
        let is_small = bytes.len() <= WHOLE;
        return match (text.contains("<svg"), is_small) {
            (true, true) => Ok(whole(None)),
            (true, false) => Err(format!("a drawing of {} KiB is too large", bytes.len() >> 10)),
            (false, _) => Err("it is no drawing".to_owned()),
        };
    }
    let image = decode_image(&bytes, Path::new(name), &limits).map_err(|error| error.to_string())?;
    if bytes.len() <= WHOLE {
        return Ok(whole(None));
    }
    let [width, height] = [image.width, image.height];
    let factor = (SIDE as f64 / width.max(height) as f64).min(1.0);
    let side = |length: usize| ((length as f64 * factor).round() as usize).max(1);
    let small = if factor < 1.0 { resize_pillow(&image, side(width), side(height)) } else { image };
    let jpeg = encode_jpeg(&small, QUALITY, Path::new(name)).map_err(|error| error.to_string())?;
    let note = format!("a smaller copy of {width} × {height} pixels, {} KiB", bytes.len() >> 10);
    Ok(Picture { name: name.to_owned(), uri: data_uri("image/jpeg", &jpeg), note: Some(note) })
}

impl Pictures {
    /// The picture that a text of the run names, in whatever format.
    pub fn named(&self, name: &str) -> Option<&Picture> {
        let stem = Path::new(name).with_extension("");
        self.shown.iter().find(|picture| Path::new(&picture.name).with_extension("") == stem)
    }
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
    fn large_pictures_become_small_and_the_budget_holds() {
        let dir = tempfile::tempdir().unwrap();
        // Noise, which PNG cannot make smaller.
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let large = Image::new(1600, 400, (0..1600 * 400 * 3).map(|_| noise()).collect()).unwrap();
        ebm_data::encode::write_png(&dir.path().join("large.png"), &large).unwrap();
        let small = Image::filled(4, 4, [200, 0, 0]).unwrap();
        ebm_data::encode::write_png(&dir.path().join("small.png"), &small).unwrap();
        std::fs::write(dir.path().join("torn.png"), b"\x89PNG\r\n\x1a\n").unwrap();
        let names = ["large.png", "small.png", "torn.png"].map(str::to_owned);
        let names: Vec<&String> = names.iter().collect();
        let mut budget = 1 << 20;
        let pictures = read(dir.path(), &names, &mut budget);
        assert_eq!(pictures.shown.len(), 2, "{:?}", pictures.left_out);
        assert!(pictures.shown[0].note.as_ref().unwrap().contains("1600 × 400"));
        assert!(pictures.shown[0].uri.starts_with("data:image/jpeg;base64,"));
        assert!(pictures.shown[1].note.is_none());
        assert!(pictures.left_out[0].starts_with("torn.png: "), "{:?}", pictures.left_out);
        let used: usize = pictures.shown.iter().map(|picture| picture.uri.len()).sum();
        assert_eq!(budget, (1 << 20) - used);
        let pictures = read(dir.path(), &names[..2], &mut 300);
        assert_eq!(pictures.shown.len(), 1);
        assert!(pictures.left_out[0].contains("no room"), "{:?}", pictures.left_out);
    }
}
