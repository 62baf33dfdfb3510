//! The page of runs.

mod parts;

use std::collections::BTreeSet;

use ebm_page::{CHART, CHARTS_ID, Chart, Charts, Data, Document, PAGE, Reach, escape, json};

use self::parts::{Shown, comparison, data_table, details, figure, list, notes, shortened, table};
use crate::comparison::{Comparison, Source};
use crate::curves::{Series, VALIDATION};
use crate::pictures::{self, Pictures};
use crate::run::Run;
use crate::{Error, Result, markdown};

/// A page has fewer bytes than this, so that every browser opens it.
pub const MAX_BYTES: usize = 20_000_000;

/// How much of the runs a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Points of all curves together.
    pub points: usize,
    /// Rows of a table.
    pub rows: usize,
    /// Bytes of all pictures together, as they stand in the page.
    pub picture_bytes: usize,
    /// Bytes of a report's text.
    pub text_bytes: usize,
}

impl Default for Limits {
    /// What fits into a page of [`MAX_BYTES`], but for many large tables.
    fn default() -> Self {
        Self { points: 150_000, rows: 1000, picture_bytes: 9 << 20, text_bytes: 1 << 20 }
    }
}

impl Limits {
    fn half(self) -> Self {
        let Self { points, rows, picture_bytes, text_bytes } = self;
        Self {
            points: points / 2,
            rows: rows / 2,
            picture_bytes: picture_bytes / 2,
            text_bytes: text_bytes / 2,
        }
    }
}

/// A curve has no more points than this: several for each pixel of a wide screen, after zooming in.
const CURVE_POINTS: usize = 20_000;

/// How a page that is made anew comes to the browser, which keeps what was zoomed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The browser loads the page anew after so many seconds …
    pub seconds: u32,
    /// … from its file, or from its own server, as long as that answers: then what is shown stays.
    pub reach: Reach,
}

impl Renewal {
    /// The name beside a page at which its server answers while it runs.
    pub const ALIVE: &'static str = "alive";

    /// What the page says of it.
    fn notice(self) -> String {
        let Self { seconds, reach } = self;
        let asks = if reach == Reach::OwnServer {
            format!(" data-alive=\"{}\"", Self::ALIVE)
        } else {
            String::new()
        };
        format!(
            "<p class=\"faint\" data-reload=\"{seconds}\"{asks}>This page loads itself anew every {seconds} s.</p>\n"
        )
    }
}

/// The page of `runs`, side by side, which says itself what it leaves out.
///
/// # Errors
/// [`Error::TooLarge`] where even a small part of everything is too much.
pub fn page(runs: &[Run], renewal: Option<Renewal>) -> Result<String> {
    let mut limits = Limits::default();
    loop {
        let text = Page { runs, limits, renewal, left_out: Vec::new() }.render()?;
        if text.len() < MAX_BYTES {
            return Ok(text);
        }
        if limits.rows == 0 {
            return Err(Error::TooLarge { bytes: text.len(), limit: MAX_BYTES });
        }
        limits = limits.half();
    }
}

/// The page of a run that has nothing yet.
pub fn waiting(name: &str, renewal: Renewal) -> String {
    let (title, notice) = (format!("Report of {name}"), renewal.notice());
    let heading = escape(&title);
    let body = format!(
        "<header>\n<div class=\"top\"><h1>{heading}</h1><button class=\"theme\" type=\"button\">Theme</button></div>\n{notice}\
         </header>\n<main>\n<p>The training has not written anything yet.</p>\n</main>\n"
    );
    let scripts = &[PAGE];
    Document { title: &title, reach: renewal.reach, style: "", body: &body, data: &[], scripts }.render()
}

struct Page<'a> {
    runs: &'a [Run],
    limits: Limits,
    renewal: Option<Renewal>,
    left_out: Vec<String>,
}

/// A part of the page, with its name in the list of contents.
struct Section {
    id: String,
    title: String,
    body: String,
}

impl Section {
    fn new(id: &str, title: &str, body: String) -> Option<Self> {
        (!body.is_empty()).then(|| Self { id: id.to_owned(), title: title.to_owned(), body })
    }
}

impl Page<'_> {
    fn render(mut self) -> Result<String> {
        let settings = Comparison::new(self.runs.iter().flat_map(|run| run.settings.iter().cloned()));
        let environments = Comparison::new(self.runs.iter().flat_map(|run| run.environments.iter().cloned()));
        let charts = self.charts();
        let mut sections: Vec<Section> = Vec::new();
        sections.extend(Section::new("runs", "Runs", self.overview()));
        sections.extend(Section::new("curves", "Curves", self.curves(&charts)));
        let mut budget = self.limits.picture_bytes;
        for (index, run) in self.runs.iter().enumerate() {
            let body = self.results(run, &mut budget);
            sections.extend(Section::new(&format!("run-{index}"), &run.name, body));
        }
        sections.extend(Section::new("differences", "What differs", self.differences()));
        sections.extend(Section::new("settings", "Settings", folded(&settings, "every setting")));
        sections.extend(Section::new(
            "environment",
            "Environment",
            folded(&environments, "everything known"),
        ));
        sections.extend(Section::new("left-out", "Left out", list(&self.left_out)));
        let names: Vec<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
        let title = format!("Report of {}", shortened(&names, 4));
        let data = json(&charts)?;
        let data = [Data { id: CHARTS_ID, json: &data }];
        let scripts: &[&str] = if charts.charts.is_empty() { &[PAGE] } else { &[PAGE, CHART] };
        let body = self.body(&title, &sections);
        let reach = self.renewal.map_or(Reach::Nothing, |renewal| renewal.reach);
        Ok(Document { title: &title, reach, style: "", body: &body, data: &data, scripts }.render())
    }

    fn body(&self, title: &str, sections: &[Section]) -> String {
        let link = |section: &Section| {
            format!("<li><a href=\"#{}\">{}</a></li>", section.id, escape(&section.title))
        };
        let links: String = sections.iter().map(link).collect();
        let part = |Section { id, title, body }: &Section| {
            format!("<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>\n", escape(title))
        };
        let parts: String = sections.iter().map(part).collect();
        let reload = self.renewal.map_or(String::new(), Renewal::notice);
        format!(
            "<a class=\"skip\" href=\"#main\">To the content</a>\n<header>\n<div class=\"top\"><h1>{}</h1>\
             <button class=\"theme\" type=\"button\">Theme</button></div>\n\
             <nav aria-label=\"Contents\"><ul>{links}</ul></nav>\n{reload}</header>\n<main id=\"main\">\n{parts}</main>\n",
            escape(title)
        )
    }

    /// What each run is, and what could not be read of it.
    fn overview(&self) -> String {
        let row = |run: &Run| {
            let steps = run.trainings.iter().flat_map(|training| training.series.values());
            let last = steps.filter_map(|series| series.steps.last().copied()).reduce(f64::max);
            vec![
                Shown::text(&run.name),
                Shown::text(run.command.as_deref().unwrap_or("–")),
                Shown::number(run.trainings.len() as f64),
                last.map_or(Shown::text("–"), Shown::number),
                Shown::number(run.files.len() as f64),
            ]
        };
        let rows: Vec<_> = self.runs.iter().map(row).collect();
        let header = ["run", "command", "trainings", "last step", "files"];
        let noted: Vec<String> = self.runs.iter().flat_map(|run| run.notes.clone()).collect();
        table("", &header, &rows) + &notes(&noted)
    }

    /// The charts' data: one for each quantity that any training has.
    fn charts(&self) -> Charts {
        let (mut charts, mut curves) = (Charts { x: "step".to_owned(), ..Charts::default() }, 0);
        for run in self.runs {
            for training in &run.trainings {
                charts.names.push(match training.name.as_str() {
                    "" => run.name.clone(),
                    name if self.runs.len() == 1 => name.to_owned(),
                    name => format!("{}/{name}", run.name),
                });
                curves += training.series.len();
            }
        }
        let points = (self.limits.points / curves.max(1)).clamp(20, CURVE_POINTS);
        for quantity in self.quantities() {
            let all = self.series(quantity).into_iter().map(|(of, series)| series.curve(of, points));
            charts.charts.push(Chart { title: quantity.to_owned(), curves: all.collect() });
        }
        charts
    }

    /// Names of series, the most important first.
    fn quantities(&self) -> Vec<&str> {
        let trainings = self.runs.iter().flat_map(|run| &run.trainings);
        let names: BTreeSet<&str> = trainings.flat_map(|one| one.series.keys().map(String::as_str)).collect();
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_by_key(|name| match *name {
            "loss" => 0,
            VALIDATION => 1,
            "gradient norm" => 2,
            _ => 3,
        });
        names
    }

    /// The series of that name with the index of their training.
    fn series(&self, quantity: &str) -> Vec<(usize, &Series)> {
        let trainings = self.runs.iter().flat_map(|run| &run.trainings).enumerate();
        trainings.filter_map(|(of, training)| Some((of, training.series.get(quantity)?))).collect()
    }

    fn curves(&mut self, charts: &Charts) -> String {
        if charts.charts.is_empty() {
            return String::new();
        }
        let mut figures = String::new();
        let mut numbers = String::new();
        for (index, chart) in charts.charts.iter().enumerate() {
            let title = escape(&chart.title);
            figures += &format!(
                "<figure class=\"chart\" data-chart=\"{index}\"><figcaption>{title}</figcaption></figure>\n"
            );
            let all = self.series(&chart.title).into_iter();
            let rows: Vec<_> = all.map(|(of, series)| summary(&charts.names[of], series)).collect();
            numbers += &table(&chart.title, &SUMMARY, &rows);
            let means = chart.curves.iter().filter(|curve| !curve.low.is_empty()).count();
            if means > 0 {
                self.left_out.push(format!(
                    "{}: {means} of its curves have more steps than the page holds; a point is the mean of several, and \
                     the band reaches from their least to their greatest value. The numbers below the charts are of all steps.",
                    chart.title
                ));
            }
        }
        format!("{CONTROLS}<div class=\"charts\">\n{figures}</div>\n<h3>In numbers</h3>\n{numbers}")
    }

    /// What sets runs of one kind apart; nothing where there is nothing to compare.
    fn differences(&self) -> String {
        let settings = self.alike(|run| &run.settings);
        let environments = self.alike(|run| &run.environments);
        let part = |(what, compared): (&str, &Comparison)| {
            let keys = compared.differing();
            let summary = format!("{what}, {} of {} that all have", keys.len(), compared.shared().len());
            if keys.is_empty() { String::new() } else { details(&summary, &comparison(compared, &keys)) }
        };
        [("settings", &settings), ("environment", &environments)].map(part).concat()
    }

    /// What is of one kind: what several runs say of themselves as a whole, or the trainings of one.
    fn alike(&self, of: impl Fn(&Run) -> &[Source]) -> Comparison {
        let is_one = self.runs.len() == 1;
        let sources = self.runs.iter().flat_map(|run| of(run).iter().map(move |source| (run, source)));
        let alike = sources.filter(|(run, source)| source.names.contains(&run.name) != is_one);
        Comparison::new(alike.map(|(_, source)| source.clone()))
    }

    /// The report, tables and pictures of a run.
    fn results(&mut self, run: &Run, budget: &mut usize) -> String {
        let pictures = pictures::read(&run.folder, &pictures::among(&run.files), budget);
        let about = |said: &String| format!("{}: {said}", run.name);
        self.left_out.extend(pictures.left_out.iter().map(about));
        let mut used = Vec::new();
        let mut body = run.report.as_ref().map_or(String::new(), |text| {
            let end = text.floor_char_boundary(self.limits.text_bytes);
            if end < text.len() {
                self.left_out.push(about(&format!("report.md: all but its first {end} bytes")));
            }
            format!("<article>\n{}</article>\n", markdown::render(&text[..end], &pictures, &mut used))
        });
        body += &self.tables(run);
        body + &gallery(&pictures, &used)
    }

    fn tables(&mut self, run: &Run) -> String {
        let mut body = String::new();
        for found in &run.tables {
            if let Some(spread) = found.spread() {
                body += &data_table(&spread, self.limits.rows);
            }
            let more = found.rows.len().saturating_sub(self.limits.rows);
            if more > 0 {
                self.left_out.push(format!("{}: {}: its last {more} rows", run.name, found.title));
            }
            let shown = data_table(found, self.limits.rows);
            body += &details(&format!("{}, {} rows", found.title, found.rows.len()), &shown);
        }
        body
    }
}

const CONTROLS: &str = "<div class=\"controls\">\n\
    <label>Smoothing <input type=\"range\" class=\"smoothing\" min=\"0\" max=\"0.99\" step=\"0.01\" value=\"0\"> \
    <output class=\"smoothing\">0.00</output></label>\n\
    <label><input type=\"checkbox\" class=\"logarithmic\"> Logarithmic scale</label>\n\
    <button type=\"button\" class=\"all-steps\">All steps</button>\n</div>\n<ul class=\"legend\"></ul>\n\
    <p class=\"faint\">Drag over a chart to choose steps, double click for all. With the keyboard: <kbd>+</kbd> and <kbd>−</kbd> \
    zoom, <kbd>←</kbd> and <kbd>→</kbd> move, <kbd>Home</kbd> shows all.</p>\n\
    <noscript><p>The charts need JavaScript, which is in this file; the numbers below do not.</p></noscript>\n";

const SUMMARY: [&str; 9] =
    ["training", "values", "not finite", "first", "last", "least", "at step", "greatest", "at step"];

fn summary(name: &str, series: &Series) -> Vec<Shown> {
    let finite = series.finite().count();
    let [first, last] = [series.finite().next(), series.finite().next_back()];
    let [least, greatest] = [series.least(), series.greatest()];
    let value = |entry: Option<crate::curves::Entry>| {
        entry.map_or(Shown::text("–"), |entry| Shown::number(entry.value))
    };
    let step = |entry: Option<crate::curves::Entry>| {
        entry.map_or(Shown::text("–"), |entry| Shown::number(entry.step))
    };
    let counts = [series.values.len(), series.values.len() - finite].map(|count| Shown::number(count as f64));
    let [all, missing] = counts;
    vec![
        Shown::text(name),
        all,
        missing,
        value(first),
        value(last),
        value(least),
        step(least),
        value(greatest),
        step(greatest),
    ]
}

fn folded(compared: &Comparison, what: &str) -> String {
    if compared.sources.is_empty() {
        return String::new();
    }
    let keys = compared.keys();
    details(&format!("{what}, {} of them", keys.len()), &comparison(compared, &keys))
}

/// The pictures that the report does not show already.
fn gallery(pictures: &Pictures, used: &[String]) -> String {
    let others = pictures.shown.iter().filter(|picture| !used.contains(&picture.name));
    let figures: String = others.map(figure).collect();
    if figures.is_empty() {
        figures
    } else {
        format!("<h3>Pictures</h3>\n<div class=\"pictures\">\n{figures}</div>\n")
    }
}
