//! A COCO result file whose entries keep all their fields, for programs that change entries and write them again.

use std::path::Path;

use ebm_data::coco::with_words_for_non_finite;
use ebm_data::files::read_utf8;
use serde_json::{Map, Value};

use crate::detections::{Detection, MAX_JSON_BYTES, replace_file};
use crate::error::{BoxProblem, Error, Result};

/// An entry of a result file, with all its fields, and whether words among these stand for numbers that are not finite.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultEntry(Map<String, Value>, bool);

impl ResultEntry {
    /// Returns the entry as a detection.
    ///
    /// # Errors
    /// Returns the first problem: a field that is missing or no number, a box without extent, or a problem that
    /// [`Detection::check`] finds.
    pub fn detection(&self) -> std::result::Result<Detection, BoxProblem> {
        let bbox = self.bbox()?;
        let detection = Detection {
            image_id: self.id("image_id")?,
            category_id: self.id("category_id")?,
            bbox,
            score: self.number("score", self.0.get("score"))?,
        };
        detection.check()?;
        if bbox[2] == 0.0 || bbox[3] == 0.0 {
            return Err(BoxProblem::NoExtent);
        }
        Ok(detection)
    }

    /// Returns the value of the field `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Sets the field `key` to `value`.
    pub fn set(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    fn bbox(&self) -> std::result::Result<[f64; 4], BoxProblem> {
        let value = self.0.get("bbox");
        let numbers = value.and_then(Value::as_array).filter(|numbers| numbers.len() == 4);
        let numbers = numbers.ok_or_else(|| malformed("bbox", value, "a list of four numbers"))?;
        let mut bbox = [0.0; 4];
        for (number, value) in bbox.iter_mut().zip(numbers) {
            *number = self.number("bbox", Some(value))?;
        }
        Ok(bbox)
    }

    fn id(&self, field: &'static str) -> std::result::Result<u64, BoxProblem> {
        let value = self.0.get(field);
        value.and_then(Value::as_u64).ok_or_else(|| malformed(field, value, "a whole number from 0"))
    }

    /// Reads a number, finite or not.
    fn number(&self, field: &'static str, value: Option<&Value>) -> std::result::Result<f64, BoxProblem> {
        let word = || value?.as_str()?.parse::<f64>().ok().filter(|number| !number.is_finite());
        let number = value.and_then(Value::as_f64).or_else(word);
        number.ok_or_else(|| malformed(field, value, "a number"))
    }
}

fn malformed(field: &'static str, value: Option<&Value>, expected: &'static str) -> BoxProblem {
    const SHOWN: usize = 60;
    let text = value.map_or_else(|| "missing".to_owned(), Value::to_string);
    BoxProblem::Malformed(field, text.chars().take(SHOWN).collect(), expected)
}

/// Reads a COCO result file: a JSON array of objects. NaN and infinities as Python writes them are accepted
/// here; [`ResultEntry::detection`] refuses them.
///
/// # Errors
/// [`Error::Io`], [`Error::Data`], or [`Error::Json`] with line and column for a file that is no such array.
pub fn read_entries(path: &Path) -> Result<Vec<ResultEntry>> {
    parse_entries(path, &read_utf8(path, MAX_JSON_BYTES)?)
}

/// Parses the bytes of a COCO result file as [`read_entries`] does; `path` names the file in errors.
pub(crate) fn parse_entries(path: &Path, bytes: &[u8]) -> Result<Vec<ResultEntry>> {
    let mut has_words = false;
    let entries: Vec<Map<String, Value>> = serde_json::from_slice(bytes)
        .or_else(|error| {
            has_words = true;
            serde_json::from_slice(&with_words_for_non_finite(bytes)).map_err(|_| error)
        })
        .map_err(|source| Error::Json { path: path.into(), source })?;
    Ok(entries.into_iter().map(|fields| ResultEntry(fields, has_words)).collect())
}

/// Replaces the words for numbers that are not finite by null, since JSON has no such numbers.
fn without_words(value: &mut Value) {
    match value {
        Value::String(text) if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) => {
            *value = Value::Null
        }
        Value::Array(values) => values.iter_mut().for_each(without_words),
        Value::Object(fields) => fields.values_mut().for_each(without_words),
        _ => {}
    }
}

/// Writes a COCO result file with one entry per line. The file appears whole or not at all. Numbers that were read as NaN
/// or infinite become null.
///
/// # Errors
/// [`Error::Io`].
pub fn write_entries(path: &Path, entries: &[ResultEntry]) -> Result<()> {
    let line = |ResultEntry(fields, has_words): &ResultEntry| {
        let mut fields = fields.clone();
        if *has_words {
            fields.values_mut().for_each(without_words);
        }
        serde_json::to_string(&fields)
    };
    let lines = entries.iter().map(line);
    let lines = lines.collect::<std::result::Result<Vec<_>, _>>();
    let lines = lines.map_err(|source| Error::Json { path: path.into(), source })?;
    replace_file(path, format!("[{}]\n", lines.join(",\n")).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Result<Vec<ResultEntry>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        std::fs::write(&path, text).unwrap();
        read_entries(&path)
    }

    #[test]
    fn what_is_not_known_is_kept() {
        let text = r#"[{"image_id":4,"category_id":1,"bbox":[1,2.5,3,4],"score":0.123456789012345678,
            "id":"x9","segmentation":{"size":[2,3],"counts":"ab"}},{"score":1e-3,"bbox":[0,0,1,1],"category_id":3,
            "image_id":18446744073709551615}]"#;
        let found = entries(text).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.json");
        write_entries(&path, &found).unwrap();
        assert_eq!(read_entries(&path).unwrap(), found);
        let [again, given]: [Value; 2] = [std::fs::read_to_string(&path).unwrap(), text.to_owned()]
            .map(|text| serde_json::from_str(&text).unwrap());
        assert_eq!(again, given);
        let non_finite = entries(r#"[{"score":NaN,"mine":[-Infinity,"no NaN"]}]"#).unwrap();
        write_entries(&path, &non_finite).unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(written[0], serde_json::json!({ "score": null, "mine": [null, "no NaN"] }));
        let first = found[0].detection().unwrap();
        assert_eq!((first.image_id, first.bbox, first.score), (4, [1.0, 2.5, 3.0, 4.0], 0.12345678901234568));
        assert_eq!(found[1].detection().unwrap().image_id, u64::MAX);
    }

    #[test]
    fn every_problem_is_found() {
        let problem = |change: &str| {
            let fields =
                [("image_id", "4"), ("category_id", "1"), ("bbox", "[1, 2, 3, 4]"), ("score", "0.5")];
            let (key, value) = change.split_once('=').unwrap();
            let field =
                |(name, own): (&str, &str)| format!("\"{name}\": {}", if name == key { value } else { own });
            let text = fields.map(field).join(", ");
            entries(&format!("[{{{text}}}]")).unwrap()[0].detection().map_err(|problem| problem.to_string())
        };
        assert!(problem("none=1").is_ok());
        for (change, said) in [
            ("score=NaN", "score is NaN"),
            ("score=null", "score is null, not a number"),
            ("score=\"0.5\"", "score is \"0.5\", not a number"),
            ("bbox=[1, 2, 0, 4]", "width or height is 0"),
            ("bbox=[1, 2, 3, -4]", "height is -4, below zero"),
            ("bbox=[1, Infinity, 3, 4]", "y is inf"),
            ("bbox=[1, 2, 3]", "bbox is [1,2,3], not a list of four numbers"),
            ("bbox=[1, 2, 3, 1e9]", "height is 1000000000, beyond"),
            ("image_id=-1", "image_id is -1, not a whole number"),
            ("category_id=1.5", "category_id is 1.5, not a whole number"),
        ] {
            let found = problem(change).unwrap_err();
            assert!(found.contains(said), "{change}: {found}");
        }
        let missing = entries(r#"[{"image_id": 1, "category_id": 1, "score": 1}]"#).unwrap()[0].detection();
        assert!(missing.unwrap_err().to_string().contains("bbox is missing"));
        let broken = entries("[{\"image_id\": 1},\n  {\"image_id\": }]").unwrap_err().to_string();
        assert!(broken.contains("line 2"), "{broken}");
    }
}
