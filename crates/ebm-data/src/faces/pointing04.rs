//! Pointing'04: fifteen people, each photographed twice in 93 poses of the head.

use std::path::Path;

use super::region::square_about;
use super::{Face, Faces, Pixels, Tolerance};
use crate::decode::read_header;
use crate::error::{Error, Result};
use crate::files::{files_in, names_in, read_settings};
use crate::quarantine::{DefectCode, Finding};

/// Prefix of the folder of a person; the person's number follows.
const PERSON: &str = "Person";
/// Largest angle, in degrees.
const MAX_ANGLE: i16 = 90;

/// Default ratio of the side of a crop to the longer side of the face's box.
pub const SCALE: f64 = 1.3;

/// Reads the photographs of the folders `Person01`, `Person02` … in `root`, sorted by name. Targets are pan and
/// tilt in degrees.
///
/// The name `person01146+15-30.jpg` means person 01, series 1, number 46, tilt 15, pan −30. The `.txt` of the
/// same name has the face's box. After the lines with the image's name and with `Face` it has the column and the
/// row of the centre, the width and the height, in pixels. The crop is a square about the centre, `scale` times
/// as long as the longer side of the box, such as [`SCALE`].
///
/// A photograph is defective if its name has no pose or names another person than its folder. It is also defective if
/// its box is missing, not four numbers, empty or outside the image, or if the image's header cannot be read.
///
/// # Errors
/// [`Error::Io`] for a folder that cannot be listed, [`Error::Data`] for a folder without photographs,
/// [`Error::TooManyDefects`] above the tolerated fraction, [`Error::Argument`] for a `scale` or a tolerated
/// fraction outside its domain.
pub fn load(root: &Path, scale: f64, tolerance: &Tolerance) -> Result<Faces> {
    if !(scale > 0. && scale <= 100.) {
        let detail = format!("{scale} is no scale of a crop; give a positive one, such as 1.3");
        return Err(Error::Argument { name: "scale", detail });
    }
    let mut collected = Faces::default();
    let mut found = false;
    for folder in names_in(root)? {
        if !folder.strip_prefix(PERSON).is_some_and(is_number) || !root.join(&folder).is_dir() {
            continue;
        }
        let person = folder.trim_start_matches(PERSON);
        for path in files_in(&root.join(&folder), &["jpg", "jpeg", "png"])? {
            found = true;
            let name = format!("{folder}/{}", path.file_stem().unwrap_or_default().to_string_lossy());
            let outcome = face(&path, person, scale).map(|(region, target)| {
                let pixels = Pixels::Region { path: path.clone(), region };
                Face { name: name.clone(), pixels, target }
            });
            collected.push(&path, &name, outcome);
        }
    }
    if !found {
        let detail =
            "no folder such as Person01 with images such as person01146+0+0.jpg; give the folder that they \
                      are in"
                .to_owned();
        return Err(Error::format(root, "the folder of Pointing'04", detail));
    }
    collected.check_tolerance(tolerance)
}

/// Returns the crop and the pose of a photograph.
fn face(path: &Path, person: &str, scale: f64) -> std::result::Result<([i64; 4], Vec<f32>), Finding> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let target = pose(&stem, person).map_err(|detail| Finding::new(DefectCode::BadAnnotation, detail))?;
    let file = path.with_extension("txt");
    if !file.is_file() {
        return Err(Finding::new(DefectCode::BadAnnotation, file.display().to_string()));
    }
    let [x, y, width, height] = read_box(&file)
        .map_err(|detail| Finding::new(DefectCode::BadAnnotation, format!("{}: {detail}", file.display())))?;
    let header =
        read_header(path).map_err(|error| Finding::new(DefectCode::UnreadableImage, error.to_string()))?;
    let say = |what: &str| format!("{}: the box {x} {y} {width} {height} {what}", file.display());
    if !(width > 0. && height > 0.) {
        return Err(Finding::new(DefectCode::BadBox, say("is empty")));
    }
    let [columns, rows] = [header.width, header.height].map(|side| side as f64);
    let overlaps =
        |centre: f64, side: f64, length: f64| centre + side / 2. > 0. && centre - side / 2. < length;
    if !(overlaps(x, width, columns) && overlaps(y, height, rows) && width <= columns && height <= rows) {
        let of = format!("does not lie in the image of {columns}x{rows} pixels");
        return Err(Finding::new(DefectCode::BadBox, say(&of)));
    }
    Ok((square_about([x, y, width, height], scale), target))
}

/// Parses pan and tilt from the name of an image of `person`. The error says why the name has none.
fn pose(stem: &str, person: &str) -> std::result::Result<Vec<f32>, String> {
    let fail = || {
        format!("the name {stem:?} is not of the form person01146+15-30: person, series, number, tilt, pan")
    };
    let rest = stem.strip_prefix("person").ok_or_else(fail)?;
    let start = rest.find(['+', '-']).ok_or_else(fail)?;
    let (digits, angles) = rest.split_at(start);
    let split = angles.rfind(['+', '-']).filter(|&split| split > 0).ok_or_else(fail)?;
    if digits.len() != 5 || !is_number(digits) {
        return Err(fail());
    }
    if digits.get(..2) != Some(person) {
        return Err(format!("the name {stem:?} is of another person than its folder; move it there"));
    }
    let (tilt, pan) = angles.split_at(split);
    let angle = |text: &str| {
        let angle = text.parse::<i16>().ok().filter(|_| text.get(1..).is_some_and(is_number));
        let angle = angle.filter(|angle| angle.abs() <= MAX_ANGLE);
        angle.map(f32::from).ok_or_else(|| format!("{text:?} of {stem:?} is no angle of -90 to 90 degrees"))
    };
    Ok(vec![angle(pan)?, angle(tilt)?])
}

/// Reads a box: the column and the row of the centre, the width and the height.
fn read_box(path: &Path) -> std::result::Result<[f64; 4], String> {
    let text = read_settings(path).map_err(|error| error.to_string())?;
    let words: Vec<&str> = text.split_whitespace().skip_while(|word| *word != "Face").skip(1).collect();
    let numbers = words.iter().map(|word| word.parse::<f64>().ok().filter(|number| number.abs() <= 1e6));
    let numbers: Option<Vec<f64>> = numbers.collect();
    let four = numbers.and_then(|numbers| <[f64; 4]>::try_from(numbers).ok());
    four.ok_or_else(|| {
        "four numbers after `Face` are needed: the centre's column and row, width, height".to_owned()
    })
}

/// Returns whether a text consists of digits only.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
