//! Records of a COCO annotation file, as written.
//!
//! The outline (objects and arrays) must be right, or the file is no COCO file. A field within a record may hold
//! anything: it is parsed to its value or to a finding, so that one bad record does not cost the others.

use std::path::Path;

use serde_json::Value;

use super::COCO;
use crate::error::Error;
use crate::files::{read_utf8, stays_inside};
use crate::quarantine::{DefectCode, Finding};

/// Field of a record: its value, or the defect of it.
pub type Field<T> = Result<T, Box<Finding>>;

/// Annotation file; other keys (`info`, `licenses`) are skipped.
#[derive(serde::Deserialize)]
pub struct AnnotationFile {
    /// The images, in the order of the file.
    pub images: Vec<ImageRecord>,
    /// The annotations; `None` in the file of a test set.
    pub annotations: Option<Vec<AnnotationRecord>>,
    /// The categories.
    pub categories: Vec<CategoryRecord>,
}

impl AnnotationFile {
    /// Reads a file of at most 2 GiB. NaN and infinities as Python writes them are accepted by the parser. The
    /// field that holds one is a defect.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::TooLarge`], and [`Error::Data`] for a file without the structure of an annotation
    /// file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read_utf8(path, 2 << 30)?;
        serde_json::from_slice(&bytes)
            .or_else(|error| serde_json::from_slice(&with_words_for_non_finite(&bytes)).map_err(|_| error))
            .map_err(|error| Error::format(path, COCO, error))
    }
}

/// Replaces the numbers that Python writes and JSON lacks (NaN and the infinities) by strings. A field then
/// reports the string as no number.
pub fn with_words_for_non_finite(bytes: &[u8]) -> Vec<u8> {
    const WORDS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let mut out = Vec::with_capacity(bytes.len());
    let (mut at, mut quoted) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        let word = WORDS.iter().find(|word| !quoted && bytes[at..].starts_with(word));
        if let Some(word) = word {
            out.extend([b"\"", *word, b"\""].concat());
            at += word.len();
            continue;
        }
        out.push(byte);
        at += 1;
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => {
                out.extend(bytes.get(at));
                at += 1;
            }
            _ => {}
        }
    }
    out
}

/// Category, as written.
#[derive(serde::Deserialize)]
pub struct CategoryRecord {
    /// Id of the category.
    pub id: u64,
    /// Name of the category; some tools omit it.
    pub name: Option<String>,
}

/// Image, as written.
#[derive(serde::Deserialize)]
#[serde(from = "Value")]
pub struct ImageRecord {
    /// Id of the image.
    pub id: Field<u64>,
    /// Path of the image file, within the folder of the images.
    pub file_name: Field<String>,
    /// Number of columns, at least one.
    pub width: Field<usize>,
    /// Number of rows, at least one.
    pub height: Field<usize>,
}

/// Annotation, as written. It is reduced while it is parsed, because COCO's train2017 has 860 thousand.
#[derive(serde::Deserialize)]
#[serde(from = "AnnotationFields")]
pub struct AnnotationRecord {
    /// Id of the annotation.
    pub id: Field<u64>,
    /// Id of the image.
    pub image_id: Field<u64>,
    /// Id of the category.
    pub category_id: Field<u64>,
    /// Left, top, width and height in pixels; finite.
    pub bbox: Field<[f64; 4]>,
    /// Area in square pixels, finite; `None` if the file gives none.
    pub area: Field<Option<f64>>,
    /// Whether the annotation is a crowd; false if the file does not say.
    pub iscrowd: Field<bool>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct AnnotationFields {
    id: Value,
    image_id: Value,
    category_id: Value,
    bbox: Value,
    area: Value,
    iscrowd: Value,
}

impl From<Value> for ImageRecord {
    fn from(fields: Value) -> Self {
        let side = |name: &str| {
            let side = fields[name].as_u64().and_then(|side| usize::try_from(side).ok());
            side.filter(|&side| side > 0).ok_or_else(|| misfit(name, &fields[name]))
        };
        let file_name = fields["file_name"].as_str().filter(|name| stays_inside(name)).map(str::to_owned);
        Self {
            id: integer("id", &fields["id"]),
            file_name: file_name.ok_or_else(|| misfit("file_name", &fields["file_name"])),
            width: side("width"),
            height: side("height"),
        }
    }
}

impl From<AnnotationFields> for AnnotationRecord {
    fn from(fields: AnnotationFields) -> Self {
        Self {
            id: integer("id", &fields.id),
            image_id: integer("image_id", &fields.image_id),
            category_id: integer("category_id", &fields.category_id),
            bbox: numbers(&fields.bbox),
            area: match &fields.area {
                Value::Null => Ok(None),
                area => area.as_f64().map(Some).ok_or_else(|| misfit("area", area)),
            },
            iscrowd: flag(&fields.iscrowd),
        }
    }
}

/// Reads an id; some tools write it as a text.
fn integer(name: &str, value: &Value) -> Field<u64> {
    let id = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    id.ok_or_else(|| misfit(name, value))
}

/// Reads `iscrowd`: COCO writes 0 and 1, some tools write false and true.
fn flag(value: &Value) -> Field<bool> {
    match (value, value.as_u64()) {
        (Value::Null, _) | (_, Some(0)) => Ok(false),
        (_, Some(1)) => Ok(true),
        (Value::Bool(flag), _) => Ok(*flag),
        _ => Err(misfit("iscrowd", value)),
    }
}

/// Reads four finite numbers.
fn numbers(bbox: &Value) -> Field<[f64; 4]> {
    let numbers: Option<Vec<f64>> = bbox.as_array().and_then(|all| all.iter().map(Value::as_f64).collect());
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| misfit("bbox", bbox))
}

fn misfit(name: &str, value: &Value) -> Box<Finding> {
    Box::new(Finding::new(DefectCode::BadAnnotation, format!("{name} is {}", shorten(value))))
}

/// Returns a value as text of at most 80 characters.
fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_that_json_lacks_become_texts() {
        let text = br#"{"a": NaN, "NaN": [-Infinity, Infinity, "x\"NaN"], "b": 1}"#;
        let value: Value = serde_json::from_slice(&with_words_for_non_finite(text)).unwrap();
        assert_eq!(value, json!({"a": "NaN", "NaN": ["-Infinity", "Infinity", "x\"NaN"], "b": 1}));
    }
}
