//! The part of YAML that Ultralytics' and Roboflow's `data.yaml` are written in.
//!
//! ```yaml
//! path: .              # optional; the folder that the others are in
//! train: images/train  # a folder of images
//! val: images/val      # optional, as is `test`
//! nc: 2                # optional; the number of names
//! names: [cat, dog]    # or a list with dashes, or a map from 0, 1, …
//! ```
//!
//! Other keys, with what is indented below them, are skipped. Lists of folders, anchors, tags and texts of
//! several lines are refused where one of these keys has them.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// What a `data.yaml` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataYaml {
    /// The folder that the splits are in.
    pub path: Option<PathBuf>,
    /// The images to train on.
    pub train: Option<PathBuf>,
    /// The images to validate on.
    pub val: Option<PathBuf>,
    /// The images to test on.
    pub test: Option<PathBuf>,
    /// The names of the classes, by index.
    pub names: Vec<String>,
}

/// A line without its comment: its number from 1, its indentation and the rest.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// A value, or the number of the line that is refused and what to write.
type Parsed<T> = std::result::Result<T, (usize, String)>;

impl DataYaml {
    /// Reads `text`, which is that of the file `path`.
    ///
    /// # Errors
    /// [`Error::Format`] with the line and what to write instead.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        parse(text).map_err(|(line, detail)| Error::Format {
            path: path.to_owned(),
            expected: "a data.yaml as Ultralytics writes it",
            detail: format!("line {line}: {detail}"),
        })
    }
}

fn parse(text: &str) -> Parsed<DataYaml> {
    let lines: Vec<Line> =
        (1..).zip(text.lines()).filter_map(|(number, line)| significant(number, line)).collect();
    let mut yaml = DataYaml::default();
    let (mut seen, mut count) = (Vec::new(), None);
    let mut rest = &lines[..];
    while let [line, below @ ..] = rest {
        let refuse = |detail: &str| Err((line.number, detail.to_owned()));
        // A list may stand as far left as its key, and what closes one.
        let end = below.iter().position(|line| line.indent == 0 && !line.text.starts_with(['-', ']', '}']));
        let (block, after) = below.split_at(end.unwrap_or(below.len()));
        rest = after;
        let (key, value) = match split_key(line.text) {
            Some(pair) if line.indent == 0 => pair,
            _ => return refuse("neither `key: value` nor indented below a key"),
        };
        if seen.contains(&key) {
            return refuse("the key occurs twice; leave one");
        }
        seen.push(key);
        let folder = || folder(line.number, value, block).map(Some);
        match key {
            "path" => yaml.path = folder()?,
            "train" => yaml.train = folder()?,
            "val" | "valid" if yaml.val.is_some() => return refuse("both `val` and `valid`; leave one"),
            "val" | "valid" => yaml.val = folder()?,
            "test" => yaml.test = folder()?,
            "nc" => {
                let number = value.parse::<usize>();
                count = Some((line.number, number.map_err(|_| (line.number, "nc is no number".to_owned()))?));
            }
            "names" => yaml.names = names(line.number, value, block)?,
            _ => {}
        }
    }
    let last = lines.last().map_or(1, |line| line.number);
    if yaml.names.is_empty() {
        return Err((last, "no `names`; give those of the classes".to_owned()));
    }
    if let Some((line, count)) = count.filter(|(_, count)| *count != yaml.names.len()) {
        return Err((line, format!("nc is {count}, but there are {} names", yaml.names.len())));
    }
    if yaml.train.is_none() && yaml.val.is_none() && yaml.test.is_none() {
        return Err((last, "none of `train`, `val` and `test`; give a folder of images".to_owned()));
    }
    Ok(yaml)
}

/// What a line says; nothing of an empty one and of one that is a comment or begins a document.
fn significant(number: usize, line: &str) -> Option<Line<'_>> {
    let mut quote = None;
    let mut before = ' ';
    let end = line.char_indices().find_map(|(at, c)| {
        let comment = c == '#' && quote.is_none() && before.is_whitespace();
        match quote {
            Some(open) if c == open => quote = None,
            // An apostrophe within a word opens nothing.
            None if (c == '"' || c == '\'') && !before.is_alphanumeric() => quote = Some(c),
            _ => {}
        }
        before = c;
        comment.then_some(at)
    });
    let text = line[..end.unwrap_or(line.len())].trim_end();
    let trimmed = text.trim_start();
    let indent = text.len() - trimmed.len();
    (!trimmed.is_empty() && trimmed != "---").then_some(Line { number, indent, text: trimmed })
}

/// `key: value`, where the value may be empty.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once(':')?;
    (value.is_empty() || value.starts_with(' ')).then(|| (key.trim(), value.trim()))
}

/// One folder of images.
fn folder(line: usize, value: &str, block: &[Line]) -> Parsed<PathBuf> {
    if !block.is_empty() || value.starts_with('[') || value.ends_with(".txt") {
        return Err((line, "a list of folders or files; give one folder of images".to_owned()));
    }
    scalar(line, value).map(PathBuf::from)
}

/// The names of the classes: `[a, b]`, `{0: a, 1: b}`, or a line for each below.
fn names(line: usize, value: &str, block: &[Line]) -> Parsed<Vec<String>> {
    let mut entries: Vec<(usize, Option<&str>, String)> = Vec::new();
    let joined: String;
    if value.is_empty() {
        for line in block {
            let (index, name) = match (line.text.strip_prefix("- "), split_key(line.text)) {
                (Some(name), _) => (None, name.trim()),
                (None, Some((index, name))) => (Some(index), name),
                _ => return Err((line.number, "neither `- name` nor `index: name`".to_owned())),
            };
            entries.push((line.number, index, scalar(line.number, name)?));
        }
    } else {
        joined =
            std::iter::once(value).chain(block.iter().map(|line| line.text)).collect::<Vec<_>>().join(" ");
        let inner = |open, close| joined.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
        if let Some(list) = inner('[', ']') {
            for name in items(list) {
                entries.push((line, None, scalar(line, name)?));
            }
        } else if let Some(map) = inner('{', '}') {
            for entry in items(map) {
                let (index, name) =
                    split_key(entry).ok_or_else(|| (line, format!("{entry:?} is not `index: name`")))?;
                entries.push((line, Some(index), scalar(line, name)?));
            }
        } else {
            return Err((line, "`names` is neither a list nor a map".to_owned()));
        }
    }
    let mut names: Vec<String> = Vec::with_capacity(entries.len());
    for (line, index, name) in entries {
        if index.is_some_and(|index| index.parse() != Ok(names.len())) {
            return Err((line, format!("index {} expected; count the classes from 0", names.len())));
        }
        if names.contains(&name) {
            return Err((line, format!("{name:?} occurs twice; give each class its own name")));
        }
        names.push(name);
    }
    Ok(names)
}

/// The entries of a list or map in brackets; commas in quotes are parts of names.
fn items(list: &str) -> Vec<&str> {
    let (mut quote, mut begins) = (None, true);
    let parts = list.split(|c: char| {
        match quote {
            Some(open) if c == open => quote = None,
            // An apostrophe within a word opens nothing.
            None if begins && (c == '"' || c == '\'') => quote = Some(c),
            _ => {}
        }
        let ends = c == ',' && quote.is_none();
        begins = ends || (begins && c.is_whitespace());
        ends
    });
    let mut items: Vec<&str> = parts.map(str::trim).collect();
    // A comma may follow the last one.
    if items.last().is_some_and(|last| last.is_empty()) {
        items.pop();
    }
    items
}

/// A plain or quoted text of one line.
fn scalar(line: usize, text: &str) -> Parsed<String> {
    let refuse = |why: &str| Err((line, format!("{text:?} {why}")));
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(inner) = inner('\'') {
        return Ok(inner.replace("''", "'"));
    }
    if let Some(inner) = inner('"') {
        return if inner.contains('\\') {
            refuse("has an escape; write it plainly")
        } else {
            Ok(inner.to_owned())
        };
    }
    match text.chars().next() {
        None => refuse("is empty; give a value"),
        Some('&' | '*' | '!' | '|' | '>' | '%' | '@' | '`' | '[' | '{' | '"' | '\'') => {
            refuse("is YAML that is not read here; write it as one plain or quoted text")
        }
        Some(_) => Ok(text.to_owned()),
    }
}
