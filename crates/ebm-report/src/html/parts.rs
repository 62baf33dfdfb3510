//! Elements of the page.

use std::collections::BTreeSet;

use ebm_page::escape;

use crate::comparison::Comparison;
use crate::pictures::Picture;
use crate::tables::{Cell, Table};

/// What a cell of a table shows.
pub struct Shown {
    text: String,
    /// The number that it is sorted by.
    value: Option<f64>,
}

impl Shown {
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), value: None }
    }

    pub fn number(value: f64) -> Self {
        Self { text: number(value), value: Some(value) }
    }

    fn of(cell: &Cell) -> Self {
        match cell {
            Cell::Empty => Self::text("–"),
            Cell::Number(value) => Self::number(*value),
            Cell::Spread { mean, shown } => Self { text: shown.clone(), value: Some(*mean) },
            Cell::Text(text) => Self::text(text),
        }
    }

    /// The cell, with the number in full for those who copy and for scripts.
    fn element(&self) -> String {
        let text = escape(&self.text);
        match self.value {
            Some(value) => {
                format!("<td class=\"number\" data-value=\"{value}\" title=\"{value}\">{text}</td>")
            }
            None if self.text.len() > 16 => format!("<td class=\"text\">{text}</td>"),
            None => format!("<td>{text}</td>"),
        }
    }
}

/// A number to five digits; whole ones in full.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e15 {
        return value.to_string();
    }
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.4e}");
    }
    let decimals = (4.0 - size.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$}")
}

/// The first `most` names, and how many more there are.
pub fn shortened(names: &[&str], most: usize) -> String {
    let first = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// A sortable table. The caption may be empty.
pub fn table(caption: &str, header: &[impl AsRef<str>], rows: &[Vec<Shown>]) -> String {
    let caption =
        if caption.is_empty() { String::new() } else { format!("<caption>{}</caption>", escape(caption)) };
    let head: String =
        header.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name.as_ref()))).collect();
    let row = |row: &Vec<Shown>| format!("<tr>{}</tr>\n", row.iter().map(Shown::element).collect::<String>());
    let body: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"table\" tabindex=\"0\"><table class=\"sortable\">{caption}<thead><tr>{head}</tr></thead>\n\
         <tbody>{body}</tbody></table></div>\n"
    )
}

/// The first rows of a run's table.
pub fn data_table(found: &Table, most: usize) -> String {
    let rows: Vec<_> = found.rows.iter().take(most).map(|row| row.iter().map(Shown::of).collect()).collect();
    table(&found.title, &found.header, &rows)
}

/// The values of `keys` in every source.
pub fn comparison(compared: &Comparison, keys: &BTreeSet<&str>) -> String {
    let name = |names: &Vec<String>| shortened(&names.iter().map(String::as_str).collect::<Vec<_>>(), 3);
    let sources = compared.sources.iter().map(|source| name(&source.names));
    let header: Vec<String> = std::iter::once("key".to_owned()).chain(sources).collect();
    let row = |key: &&str| {
        let values =
            compared.sources.iter().map(|source| source.values.get(*key).map_or("–", String::as_str));
        std::iter::once(*key).chain(values).map(Shown::text).collect()
    };
    let rows: Vec<Vec<Shown>> = keys.iter().map(row).collect();
    table("", &header, &rows)
}

/// What is seen after a click on its summary.
pub fn details(summary: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
}

pub fn figure(picture: &Picture) -> String {
    let (name, uri) = (escape(&picture.name), &picture.uri);
    let note = picture.note.as_ref().map_or(String::new(), |note| format!(", {}", escape(note)));
    format!("<figure><img alt=\"{name}\" src=\"{uri}\"><figcaption>{name}{note}</figcaption></figure>\n")
}

/// A list; nothing where there is nothing.
pub fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

/// What the reader should know before anything else.
pub fn notes(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"notes\">\n{items}</ul>\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole_in_the_cell() {
        let cases =
            [(0.459_671_538_582, "0.45967"), (6240.0, "6240"), (-8.8451, "-8.8451"), (123_456.789, "123457")];
        for (value, shown) in cases {
            assert_eq!(number(value), shown);
        }
        assert_eq!(number(2.5e-7), "2.5000e-7");
        let cell = Shown::number(0.459_671_538_582).element();
        assert!(cell.contains("data-value=\"0.459671538582\"") && cell.ends_with(">0.45967</td>"), "{cell}");
    }

    #[test]
    fn names_with_html_are_text() {
        let rows = [vec![Shown::text("<b>\"x\"</b>")]];
        let html = table("<i>", &["<u>"], &rows);
        assert!(!html.contains("<b>") && !html.contains("<i>") && !html.contains("<u>"), "{html}");
    }
}
