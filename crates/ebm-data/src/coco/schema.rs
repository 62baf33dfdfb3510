//! The annotation file as written, field by field.
//!
//! The outline (objects and arrays) must be right or the file is no COCO file. A field within a record may
//! be anything: it is kept as read until the check decides, so that one bad record does not cost the rest.

use serde::Deserialize;
use serde_json::Value;

/// The file; other keys (`info`, `licenses`) are skipped.
#[derive(Deserialize)]
pub(super) struct File {
    pub images: Vec<Image>,
    /// Absent in the file of a test set.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    pub categories: Vec<Category>,
}

#[derive(Deserialize)]
pub(super) struct Category {
    pub id: u64,
    pub name: String,
}

#[derive(Deserialize)]
pub(super) struct Image {
    #[serde(default)]
    pub id: Value,
    #[serde(default)]
    pub file_name: Value,
    #[serde(default)]
    pub width: Value,
    #[serde(default)]
    pub height: Value,
}

/// An annotation, reduced while it is parsed: COCO's train2017 holds 860 thousand.
#[derive(Deserialize)]
#[serde(from = "AnnotationFields")]
pub(super) struct Annotation {
    pub id: Option<u64>,
    pub image_id: Option<u64>,
    pub category_id: Option<u64>,
    pub bbox: Bbox,
    pub area: Area,
    /// `None` for anything but 0, 1, true and false.
    pub iscrowd: Option<bool>,
}

/// `(x, y, w, h)` or what is wrong with it.
pub(super) enum Bbox {
    Numbers([f64; 4]),
    NotFinite(Box<str>),
    Malformed(Box<str>),
}

pub(super) enum Area {
    Absent,
    Number(f64),
    Malformed(Box<str>),
}

#[derive(Deserialize)]
struct AnnotationFields {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    image_id: Value,
    #[serde(default)]
    category_id: Value,
    #[serde(default)]
    bbox: Value,
    #[serde(default)]
    area: Value,
    #[serde(default)]
    iscrowd: Value,
}

impl From<AnnotationFields> for Annotation {
    fn from(fields: AnnotationFields) -> Self {
        Self {
            id: fields.id.as_u64(),
            image_id: fields.image_id.as_u64(),
            category_id: fields.category_id.as_u64(),
            bbox: Bbox::from(&fields.bbox),
            area: match &fields.area {
                Value::Null => Area::Absent,
                other => match other.as_f64() {
                    Some(number) => Area::Number(number),
                    None => Area::Malformed(shorten(other)),
                },
            },
            iscrowd: match &fields.iscrowd {
                Value::Null => Some(false),
                Value::Bool(flag) => Some(*flag),
                other => match other.as_u64() {
                    Some(0) => Some(false),
                    Some(1) => Some(true),
                    _ => None,
                },
            },
        }
    }
}

impl From<&Value> for Bbox {
    fn from(value: &Value) -> Self {
        let entries = match value.as_array() {
            Some(entries) if entries.len() == 4 => entries,
            _ => return Self::Malformed(shorten(value)),
        };
        let mut numbers = [0.; 4];
        for (number, entry) in numbers.iter_mut().zip(entries) {
            *number = match entry.as_f64() {
                Some(entry) => entry,
                // JSON has no NaN; writers put null or a string in its place.
                None if entry.is_null() || is_not_finite(entry) => return Self::NotFinite(shorten(value)),
                None => return Self::Malformed(shorten(value)),
            };
        }
        Self::Numbers(numbers)
    }
}

fn is_not_finite(entry: &Value) -> bool {
    entry.as_str().and_then(|text| text.parse::<f64>().ok()).is_some_and(|number| !number.is_finite())
}

/// A value in at most 80 characters, for an error message.
pub(crate) fn shorten(value: &Value) -> Box<str> {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
