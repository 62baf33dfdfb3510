//! The report page of runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::comparison::{Comparison, Source};
use super::curves::{Entry, Series, VALIDATION};
use super::markdown;
use super::pictures::{Picture, Pictures};
use super::run::Run;
use super::tables::{Cell, Table};
use crate::page::{CHART, Document, PAGE, escape};

/// Largest number of curves of a page.
const CURVES: usize = 5000;
/// Largest number of points of all curves of a page together.
const POINTS: usize = 150_000;
/// Largest number of points of a curve: several for each pixel of a wide screen.
const CURVE_POINTS: usize = 5000;
/// Largest number of rows of a table.
const ROWS: usize = 1000;
/// Largest number of bytes of all pictures together, as encoded in the page.
const PICTURE_BYTES: usize = 9 << 20;

/// Returns the page of `runs` side by side, with a list of everything left out. With `reload`, the page comes from a
/// [`crate::server`], and the browser reloads it every `reload` seconds.
pub fn page(runs: &[Run], reload: Option<u32>) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let title = format!("Report of {}", shortened(&names, 4));
    let mut left_out = Vec::new();
    let (curves, charts) = curves(runs, &mut left_out).unzip();
    let section = |id: &str, title: &str, body: String| [id.to_owned(), escape(title), body];
    let mut sections = vec![
        section("runs", "Runs", overview(runs)),
        section("curves", "Curves", curves.unwrap_or_default()),
    ];
    let mut budget = PICTURE_BYTES;
    for (index, run) in runs.iter().enumerate() {
        let body = results(run, &mut budget, &mut left_out);
        sections.push(section(&format!("run-{index}"), &run.name, body));
    }
    let settings = Comparison::new(runs.iter().flat_map(|run| run.settings.iter().cloned()));
    let environments = Comparison::new(runs.iter().flat_map(|run| run.environments.iter().cloned()));
    sections.extend([
        section("differences", "What differs", differences(runs)),
        section("settings", "Settings", folded(&settings, "all settings")),
        section("environment", "Environment", folded(&environments, "all values")),
        section("left-out", "Left out", list(&left_out)),
    ]);
    sections.retain(|[_, _, body]| !body.is_empty());
    let link = |[id, title, _]: &[String; 3]| format!("<li><a href=\"#{id}\">{title}</a></li>");
    let part = |[id, title, body]: &[String; 3]| {
        format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
    };
    let [links, parts]: [String; 2] =
        [sections.iter().map(link).collect(), sections.iter().map(part).collect()];
    let contents = format!("<nav aria-label=\"Contents\"><ul>{links}</ul></nav>\n");
    document(&title, reload, &contents, &parts, charts.as_ref())
}

/// Returns the page of a run without any files yet, which also comes from a server.
pub fn waiting(name: &str, reload: u32) -> String {
    let said = "<p>The training has not written anything yet.</p>\n";
    document(&format!("Report of {name}"), Some(reload), "", said, None)
}

fn document(title: &str, reload: Option<u32>, contents: &str, parts: &str, charts: Option<&Value>) -> String {
    let notice = reload.map_or(String::new(), |seconds| {
        format!(
            "<p class=\"faint\" data-reload=\"{seconds}\">This page loads itself anew every {seconds} s.</p>\n"
        )
    });
    let heading = escape(title);
    let body = format!("<header>\n<h1>{heading}</h1>\n{contents}{notice}</header>\n<main>\n{parts}</main>\n");
    let scripts: &[&str] = if charts.is_some() { &[PAGE, CHART] } else { &[PAGE] };
    Document { title, is_served: reload.is_some(), style: "", body: &body, charts, scripts }.render()
}

/// Returns the table of runs, with notes about unreadable files.
fn overview(runs: &[Run]) -> String {
    let row = |run: &Run| {
        let series = run.trainings.iter().flat_map(|training| training.series.values());
        let last = series.filter_map(|series| Some(series.0.last()?.step)).reduce(f64::max);
        vec![
            Cell::Text(run.name.clone()),
            run.command.clone().map_or(Cell::Empty, Cell::Text),
            Cell::Number(run.trainings.len() as f64),
            last.map_or(Cell::Empty, Cell::Number),
            Cell::Number(run.files.len() as f64),
        ]
    };
    let header = ["run", "command", "trainings", "last step", "files"];
    let noted: Vec<String> = runs.iter().flat_map(|run| run.notes.clone()).collect();
    let rows: Vec<_> = runs.iter().map(row).collect();
    table("", &header, &rows) + &list(&noted).replacen("<ul>", "<ul class=\"notes\">", 1)
}

/// A quantity, with the series of every training that has it and the index of the training's name.
struct Quantity<'a> {
    name: &'a str,
    series: Vec<(usize, &'a Series)>,
}

/// Collects the quantities of all trainings, the most important first.
fn quantities(runs: &[Run]) -> Vec<Quantity<'_>> {
    let mut found: BTreeMap<&str, Vec<(usize, &Series)>> = BTreeMap::new();
    for (of, training) in runs.iter().flat_map(|run| &run.trainings).enumerate() {
        for (name, series) in &training.series {
            found.entry(name).or_default().push((of, series));
        }
    }
    let mut all: Vec<_> = found.into_iter().map(|(name, series)| Quantity { name, series }).collect();
    let first = ["loss", VALIDATION, "gradient norm"];
    all.sort_by_key(|one| first.iter().position(|name| *name == one.name).unwrap_or(first.len()));
    all
}

/// Returns the names of all trainings.
fn names(runs: &[Run]) -> Vec<String> {
    let name = |run: &Run, name: &str| match name {
        "" => run.name.clone(),
        name if runs.len() == 1 => name.to_owned(),
        name => format!("{}/{name}", run.name),
    };
    runs.iter().flat_map(|run| run.trainings.iter().map(move |one| name(run, &one.name))).collect()
}

const CONTROLS: &str = "<div class=\"controls\">\n\
    <label>Smoothing <input type=\"range\" class=\"smoothing\" min=\"0\" max=\"0.99\" step=\"0.01\" value=\"0\"></label>\n\
    <label><input type=\"checkbox\" class=\"logarithmic\"> Logarithmic scale</label>\n\
    <button type=\"button\" class=\"all-steps\">All steps</button>\n</div>\n<ul class=\"legend\"></ul>\n\
    <p class=\"faint\">Drag over a chart to choose steps, double click for all.</p>\n\
    <noscript><p>The charts need JavaScript, which is in this file; the numbers below do not.</p></noscript>\n";

const SUMMARY: [&str; 8] = ["training", "values", "first", "last", "least", "at step", "greatest", "at step"];

/// Returns the charts with their numbers, and the data for their script.
fn curves(runs: &[Run], left_out: &mut Vec<String>) -> Option<(String, Value)> {
    let (mut quantities, names) = (quantities(runs), names(runs));
    let mut count = 0;
    let fits = |one: &&Quantity<'_>| {
        count += one.series.len();
        count <= CURVES
    };
    let shown = quantities.iter().take_while(fits).count();
    if shown < quantities.len() {
        let names: Vec<&str> = quantities.drain(shown..).map(|one| one.name).collect();
        left_out.push(format!("the curves of {}, as a page has at most {CURVES}", shortened(&names, 3)));
    }
    let points = (POINTS / count.max(1)).clamp(20, CURVE_POINTS);
    let (mut figures, mut numbers, mut charts) = (String::new(), String::new(), Vec::new());
    for (index, Quantity { name, series }) in quantities.iter().enumerate() {
        let title = escape(name);
        figures += &format!(
            "<figure class=\"chart\" data-chart=\"{index}\"><figcaption>{title}</figcaption></figure>\n"
        );
        let rows: Vec<_> = series.iter().map(|(of, series)| summary(&names[*of], series)).collect();
        numbers += &table(name, &SUMMARY, &rows);
        let curves: Vec<Value> = series.iter().map(|(of, series)| series.curve(*of, points)).collect();
        charts.push(json!({"title": name, "curves": curves}));
        let means = series.iter().filter(|(_, series)| series.0.len() > points).count();
        if means > 0 {
            left_out.push(format!(
                "{name}: {means} of its curves have more steps than the page holds; a point is the mean of several, and \
                 the band reaches from their least to their greatest value. The numbers below the charts are of all steps."
            ));
        }
    }
    let body = format!("{CONTROLS}<div class=\"charts\">\n{figures}</div>\n<h3>In numbers</h3>\n{numbers}");
    (!charts.is_empty()).then(|| (body, json!({"names": names, "charts": charts})))
}

fn summary(name: &str, series: &Series) -> Vec<Cell> {
    let least = series.finite().reduce(|best, one| if one.value < best.value { one } else { best });
    let greatest = series.finite().reduce(|best, one| if one.value > best.value { one } else { best });
    let value = |entry: Option<Entry>| entry.map_or(Cell::Empty, |entry| Cell::Number(entry.value));
    let step = |entry: Option<Entry>| entry.map_or(Cell::Empty, |entry| Cell::Number(entry.step));
    vec![
        Cell::Text(name.to_owned()),
        Cell::Number(series.0.len() as f64),
        value(series.finite().next()),
        value(series.finite().next_back()),
        value(least),
        step(least),
        value(greatest),
        step(greatest),
    ]
}

/// Returns the report, tables and pictures of a run.
fn results(run: &Run, budget: &mut usize, left_out: &mut Vec<String>) -> String {
    let pictures = Pictures::read(&run.folder, &run.files, budget);
    left_out.extend(pictures.left_out.iter().map(|said| format!("{}: {said}", run.name)));
    let mut used = Vec::new();
    let mut body = run.report.as_ref().map_or(String::new(), |text| {
        format!("<article>\n{}</article>\n", markdown::render(text, &pictures, &mut used))
    });
    for found in &run.tables {
        if let Some(spread) = found.spread() {
            body += &data_table(&spread);
        }
        let more = found.rows.len().saturating_sub(ROWS);
        if more > 0 {
            left_out.push(format!("{}: {}: its last {more} rows", run.name, found.title));
        }
        body += &details(&format!("{}, {} rows", found.title, found.rows.len()), &data_table(found));
    }
    // Pictures that the report does not show.
    let others = pictures.shown.iter().filter(|picture| !used.contains(&picture.name));
    let figures: String = others.map(figure).collect();
    if figures.is_empty() {
        return body;
    }
    format!("{body}<h3>Pictures</h3>\n<div class=\"pictures\">\n{figures}</div>\n")
}

/// Returns the differences between the settings and environments of runs; empty if there are none.
fn differences(runs: &[Run]) -> String {
    // Several runs are compared as wholes; within a single run its trainings are compared.
    let alike = |of: fn(&Run) -> &[Source]| {
        let sources = runs.iter().flat_map(|run| of(run).iter().map(move |source| (run, source)));
        let alike = sources.filter(|(run, source)| source.names.contains(&run.name) != (runs.len() == 1));
        Comparison::new(alike.map(|(_, source)| source.clone()))
    };
    let part = |what: &str, compared: &Comparison| {
        let keys = compared.differing();
        let summary = format!("{what}, {} of {} that all have", keys.len(), compared.shared().len());
        if keys.is_empty() { String::new() } else { details(&summary, &comparison(compared, &keys)) }
    };
    part("settings", &alike(|run| &run.settings)) + &part("environment", &alike(|run| &run.environments))
}

fn folded(compared: &Comparison, what: &str) -> String {
    let keys = compared.keys();
    match compared.sources.is_empty() {
        true => String::new(),
        false => details(&format!("{what} ({})", keys.len()), &comparison(compared, &keys)),
    }
}

/// Returns a table of the values of `keys` in every source.
fn comparison(compared: &Comparison, keys: &BTreeSet<&str>) -> String {
    let name = |names: &Vec<String>| shortened(&names.iter().map(String::as_str).collect::<Vec<_>>(), 3);
    let sources = compared.sources.iter().map(|source| name(&source.names));
    let header: Vec<String> = std::iter::once("key".to_owned()).chain(sources).collect();
    let row = |key: &&str| {
        let value = |source: &Source| source.values.get(*key).cloned().map_or(Cell::Empty, Cell::Text);
        std::iter::once(Cell::Text((*key).to_owned())).chain(compared.sources.iter().map(value)).collect()
    };
    let rows: Vec<Vec<Cell>> = keys.iter().map(row).collect();
    table("", &header, &rows)
}

/// Joins the first `most` names, with the number of the others.
fn shortened(names: &[&str], most: usize) -> String {
    let first = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns the first rows of a run's table.
fn data_table(found: &Table) -> String {
    table(&found.title, &found.header, &found.rows[..found.rows.len().min(ROWS)])
}

/// Returns a table, which the script of every page makes sortable. The caption may be empty.
fn table(caption: &str, header: &[impl AsRef<str>], rows: &[Vec<Cell>]) -> String {
    let caption =
        if caption.is_empty() { String::new() } else { format!("<caption>{}</caption>", escape(caption)) };
    let head: String =
        header.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name.as_ref()))).collect();
    let row = |row: &Vec<Cell>| format!("<tr>{}</tr>\n", row.iter().map(element).collect::<String>());
    let body: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"table\" tabindex=\"0\"><table>{caption}<thead><tr>{head}</tr></thead>\n\
         <tbody>{body}</tbody></table></div>\n"
    )
}

/// Returns a cell, with the number in full for copying and for scripts.
fn element(cell: &Cell) -> String {
    let number = |value: f64, text: &str| {
        format!("<td class=\"number\" data-value=\"{value}\" title=\"{value}\">{}</td>", escape(text))
    };
    match cell {
        Cell::Empty => "<td>–</td>".to_owned(),
        Cell::Number(value) => number(*value, &short(*value)),
        Cell::Spread { mean, shown } => number(*mean, shown),
        Cell::Text(text) => format!("<td>{}</td>", escape(text)),
    }
}

/// Formats a number with five digits; whole numbers in full.
fn short(value: f64) -> String {
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

/// Returns a section that a click on its summary opens.
fn details(summary: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
}

fn figure(picture: &Picture) -> String {
    let (name, uri) = (escape(&picture.name), &picture.uri);
    format!("<figure><img alt=\"{name}\" src=\"{uri}\"><figcaption>{name}</figcaption></figure>\n")
}

/// Returns a list; empty without items.
fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole_in_the_cell() {
        let cases = [
            (0.459_671_538_582, "0.45967"),
            (6240.0, "6240"),
            (-8.8451, "-8.8451"),
            (123_456.789, "123457"),
            (2.5e-7, "2.5000e-7"),
        ];
        for (value, shown) in cases {
            assert_eq!(short(value), shown);
        }
        let cell = element(&Cell::Number(0.459_671_538_582));
        assert!(cell.contains("data-value=\"0.459671538582\"") && cell.ends_with(">0.45967</td>"), "{cell}");
    }

    #[test]
    fn names_with_html_are_text() {
        let html = table("<i>", &["<u>"], &[vec![Cell::Text("<b>\"x\"</b>".to_owned())]]);
        assert!(!html.contains("<b>") && !html.contains("<i>") && !html.contains("<u>"), "{html}");
    }
}
