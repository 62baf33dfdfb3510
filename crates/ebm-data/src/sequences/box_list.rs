//! Text files with one box per line: annotations of all datasets, and results of all trackers.

use std::fmt::Write as _;
use std::path::Path;

use super::Rect;
use crate::error::{Error, Result};
use crate::files::{read_text, write_atomic};

/// Largest size of a file, in bytes: half a million frames with four numbers of 30 digits each.
const LIMIT: u64 = 64 << 20;

/// Reads the boxes in the file at `path`, one per line: x, y, width and height, separated by commas, tabs,
/// semicolons or blanks. NaN is allowed, because datasets write it where the target is absent. Empty lines at the
/// end are ignored.
///
/// # Errors
/// [`Error::Data`] with the line for any other content; [`Error::Io`].
pub fn read_boxes(path: &Path) -> Result<Vec<Rect>> {
    let text = read_text(path, LIMIT)?;
    let parse = |(number, line): (usize, &str)| {
        let fail = |detail| Error::format(path, "a list of boxes", format!("line {}: {detail}", number + 1));
        parse_box(line).map_err(fail)
    };
    text.trim_end().lines().enumerate().map(parse).collect()
}

fn parse_box(line: &str) -> std::result::Result<Rect, String> {
    let separator = |c: char| c == ',' || c == ';' || c.is_whitespace();
    let mut numbers = Vec::with_capacity(4);
    for word in line.split(separator).filter(|word| !word.is_empty()) {
        match word.parse::<f64>() {
            Ok(number) if !number.is_infinite() => numbers.push(number),
            Ok(_) | Err(_) => return Err(format!("{word:?} is no number; write x, y, width, height")),
        }
    }
    let count = numbers.len();
    numbers.try_into().map_err(|_| format!("{count} numbers where x, y, width and height are expected"))
}

/// Writes `boxes` to `path` atomically, one per line. `format` writes a number, and `separator` separates two
/// numbers.
///
/// # Errors
/// [`Error::Io`].
pub fn write_boxes(
    path: &Path,
    boxes: &[Rect],
    separator: &str,
    format: impl Fn(f64) -> String,
) -> Result<()> {
    let mut text = String::new();
    for &[x, y, width, height] in boxes {
        let [x, y, width, height] = [x, y, width, height].map(&format);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{x}{separator}{y}{separator}{width}{separator}{height}");
    }
    write_atomic(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Rect>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("boxes.txt");
        std::fs::write(&path, text).unwrap();
        read_boxes(&path)
    }

    #[test]
    fn every_separator_of_the_datasets_is_read() {
        let expected = [[1., 2.5, 3., 4.], [-5., 6., 7., 8e1]];
        for text in
            ["1,2.5,3,4\n-5,6,7,80\n", "1\t2.5\t3\t4\r\n-5\t6\t7\t80", " 1 2.5  3 4 \n-5, 6, 7, 80\n\n"]
        {
            assert_eq!(read(text).unwrap(), expected, "{text:?}");
        }
        assert!(read("NaN,NaN,NaN,NaN\n").unwrap()[0].iter().all(|number| number.is_nan()));
        assert!(read("").unwrap().is_empty());
    }

    #[test]
    fn a_malformed_line_is_named() {
        for (text, place) in [
            ("1,2,3,4\n1,2,3\n", "line 2: 3 numbers"),
            ("1,2,x,4", "line 1: \"x\""),
            ("1,2,inf,4", "line 1"),
            ("1,2,3,4\n\n1,2,3,4", "line 2: 0 numbers"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/boxes.txt");
        let boxes = vec![[1.25, -2., 3., 4.], [5., 6., 7.125, 8.]];
        write_boxes(&path, &boxes, "\t", |number| number.to_string()).unwrap();
        assert_eq!(read_boxes(&path).unwrap(), boxes);
    }
}
