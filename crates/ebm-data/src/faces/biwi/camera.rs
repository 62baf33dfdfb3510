//! The colour camera of a recording: `rgb.cal`.

use std::path::Path;

use super::rotation::{Matrix, apply, check_rotation};
use crate::error::{Error, Result};
use crate::files::read_limited;

/// The largest calibration or pose file, in bytes.
pub(super) const MAX_TEXT_BYTES: u64 = 16 << 10;
/// Columns and rows of the Kinect's images, for files that do not tell them.
const KINECT: [f64; 2] = [640., 480.];

/// From millimetres in the depth camera's system to pixels of the colour image.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Camera {
    intrinsics: Matrix,
    rotation: Matrix,
    translation: [f64; 3],
    /// Columns and rows, in pixels.
    pub size: [f64; 2],
}

impl Camera {
    /// Reads rows of numbers, with blank lines between: the 3×3 intrinsics, the lens's distortion (not used:
    /// it moves a crop by a few pixels at most), rotation and translation from the depth camera, and the
    /// images' columns and rows.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_limited(path, MAX_TEXT_BYTES)?;
        let fail = |detail| Error::format(path, "a calibration of BIWI", detail);
        let rows = numbers(&bytes).map_err(fail)?;
        Self::from_rows(&rows).map_err(fail)
    }

    fn from_rows(rows: &[Vec<f64>]) -> std::result::Result<Self, String> {
        let triple = |index: usize| match rows.get(index).map(Vec::as_slice) {
            Some(&[a, b, c]) => Ok([a, b, c]),
            other => Err(format!("row {} is {other:?} instead of three numbers", index + 1)),
        };
        let matrix = |first: usize| Ok::<_, String>([triple(first)?, triple(first + 1)?, triple(first + 2)?]);
        let size = match rows.get(8).map(Vec::as_slice) {
            None => KINECT,
            Some(&[columns, rows]) if columns >= 1. && rows >= 1. => [columns, rows],
            other => return Err(format!("row 9 is {other:?} instead of columns and rows")),
        };
        let (intrinsics, rotation, translation) = (matrix(0)?, matrix(4)?, triple(7)?);
        let [[focal, ..], [_, focal_y, _], last] = intrinsics;
        if !(focal > 0. && focal_y > 0. && last == [0., 0., 1.]) {
            return Err(format!("the intrinsics {intrinsics:?} are not those of a camera"));
        }
        check_rotation(&rotation).map_err(|detail| format!("rotation: {detail}"))?;
        Ok(Self { intrinsics, rotation, translation, size })
    }

    /// The square `[x0, y0, x1, y1]` in pixels around the projection of `center`, in millimetres, with the
    /// side that `side_mm` has at that distance; or why there is none.
    pub fn region(&self, center: &[f64; 3], side_mm: f64) -> std::result::Result<[i64; 4], String> {
        let point = apply(&self.rotation, center);
        let [x, y, z] = [0, 1, 2].map(|axis| point[axis] + self.translation[axis]);
        if z.is_nan() || z <= 0. {
            return Err(format!("the head is {z} mm before the camera"));
        }
        let [u, v, _] = apply(&self.intrinsics, &[x / z, y / z, 1.]);
        let side = (self.intrinsics[0][0] * side_mm / z).round();
        let [columns, rows] = self.size;
        if !(1. ..=4. * columns.max(rows)).contains(&side) {
            return Err(format!("the head at {z} mm would have {side} pixels"));
        }
        let (x0, y0) = ((u - side / 2.).round(), (v - side / 2.).round());
        if !(x0 < columns && y0 < rows && x0 + side > 0. && y0 + side > 0.) {
            return Err(format!("the head is at ({u}, {v}) of {columns}x{rows} pixels"));
        }
        Ok([x0, y0, x0 + side, y0 + side].map(|corner| corner as i64))
    }
}

/// The lines of a text that hold numbers, all of them finite.
pub(super) fn numbers(bytes: &[u8]) -> std::result::Result<Vec<Vec<f64>>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("it is no text: {error}"))?;
    let number = |word: &str| {
        let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("{:?} is no finite number", word.chars().take(40).collect::<String>()))
    };
    let rows = text.lines().map(|line| line.split_whitespace().map(number).collect());
    let rows: Vec<Vec<f64>> = rows.collect::<std::result::Result<_, _>>()?;
    Ok(rows.into_iter().filter(|row| !row.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera(text: &str) -> std::result::Result<Camera, String> {
        Camera::from_rows(&numbers(text.as_bytes())?)
    }

    const PLAIN: &str = "500 0 320\n0 500 240\n0 0 1\n\n0 0 0 0\n\n1 0 0\n0 1 0\n0 0 1\n\n0 0 0\n\n640 480\n";

    #[test]
    fn a_head_on_the_axis_is_in_the_middle() {
        let camera = camera(PLAIN).unwrap();
        // 500 · 300 / 1000 = 150 pixels.
        assert_eq!(camera.region(&[0., 0., 1000.], 300.).unwrap(), [245, 165, 395, 315]);
        assert_eq!(camera.region(&[0., 0., 2000.], 300.).unwrap(), [283, 203, 358, 278]);
        // 100 mm to the right at 1 m are 50 pixels; 200 mm down are 100.
        assert_eq!(camera.region(&[100., 200., 1000.], 300.).unwrap(), [295, 265, 445, 415]);
        // Beyond the left edge.
        assert_eq!(camera.region(&[-600., 0., 1000.], 300.).unwrap(), [-55, 165, 95, 315]);
    }

    #[test]
    fn the_colour_camera_has_a_place_of_its_own() {
        // A quarter turn about the axis: x becomes y. Then 20 mm to the left and 500 mm forward.
        let turned = PLAIN.replace("1 0 0\n0 1 0\n0 0 1\n\n0 0 0\n", "0 -1 0\n1 0 0\n0 0 1\n\n-20 0 500\n");
        let region = camera(&turned).unwrap().region(&[100., 0., 500.], 300.).unwrap();
        // (-20, 100, 1000) mm: pixel (310, 290).
        assert_eq!(region, [235, 215, 385, 365]);
    }

    #[test]
    fn heads_without_a_crop_are_said() {
        let camera = camera(PLAIN).unwrap();
        let said = |center: [f64; 3]| camera.region(&center, 300.).unwrap_err();
        assert!(said([0., 0., -1000.]).contains("-1000 mm before"));
        assert!(said([0., 0., 0.]).contains("0 mm"));
        assert!(said([0., 0., 1.]).contains("150000 pixels"));
        assert!(said([0., 0., 1e9]).contains("0 pixels"));
        assert!(said([-1000., 0., 1000.]).contains("(-180, 240) of 640x480"));
        assert!(said([0., 1e30, 1000.]).contains("of 640x480"));
    }

    #[test]
    fn files_that_are_no_calibration_are_errors() {
        assert_eq!(camera(&PLAIN.replace("\n640 480\n", "")).unwrap(), camera(PLAIN).unwrap());
        let cases = [
            (String::new(), "row 1 is None"),
            (PLAIN.replace("0 500 240", "0 500"), "row 2"),
            (PLAIN.replace("0 500 240", "0 x 240"), "\"x\" is no finite number"),
            (PLAIN.replace("0 500 240", "0 NaN 240"), "no finite number"),
            (PLAIN.replace("0 500 240", "0 -500 240"), "not those of a camera"),
            (PLAIN.replace("0 0 1\n\n0 0 0 0", "0 0 2\n\n0 0 0 0"), "not those of a camera"),
            (PLAIN.replace("0 1 0\n", "0 2 0\n"), "rotation: rows 2 and 2"),
            (PLAIN.replace("640 480", "640"), "row 9"),
            (PLAIN.replace("640 480", "0 480"), "row 9"),
        ];
        for (text, said) in cases {
            let error = camera(&text).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
