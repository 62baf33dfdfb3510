//! One self-contained file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::escape;

/// How every page looks, dark and light.
pub const THEME: &str = include_str!("theme.css");

/// The colours and the type of every page, dark and light, as CSS: [`THEME`] stands on them.
pub const COLOURS: &str = include_str!("colours.css");
/// The script of every page: errors are recorded, the theme is a choice, tables are sorted.
pub const PAGE: &str = include_str!("page.js");
/// The script that draws curves; it needs [`PAGE`] before it.
pub const CHART: &str = include_str!("chart.js");

/// Stands in every document, within its first kilobyte, so that a program knows a file for one that may be
/// written anew.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"ebm-page\">";

/// What a page may ask for beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing: the page is a file.
    Nothing,
    /// The server that it came from.
    OwnServer,
}

/// A page. `title` is escaped here, everything else is taken as it is.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// The title, as plain text.
    pub title: &'a str,
    /// What the page may ask for.
    pub reach: Reach,
    /// Style beside [`THEME`], as CSS.
    pub style: &'a str,
    /// What the page shows, as HTML without scripts, styles and handlers of events; the policy stops those.
    pub body: &'a str,
    /// Data for the scripts.
    pub data: &'a [Data<'a>],
    /// Scripts, in the order in which they run, after the body is there.
    pub scripts: &'a [&'a str],
}

/// Data of a page, which its scripts find by `id`.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Of the element.
    pub id: &'a str,
    /// What [`json`](crate::json) wrote.
    pub json: &'a str,
}

impl Document<'_> {
    /// The file's text.
    pub fn render(&self) -> String {
        let title = escape(self.title);
        let style = format!("{COLOURS}\n{THEME}\n{}", self.style);
        let policy = self.policy(&style);
        let body = self.body;
        let data: String = self.data.iter().map(Data::element).collect();
        let scripts: String =
            self.scripts.iter().map(|script| format!("<script>{script}</script>\n")).collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{GENERATOR}\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n{body}\n{data}{scripts}</body>\n</html>\n"
        )
    }

    /// Names this document's style and scripts by their hashes: what is written into the body runs nowhere.
    fn policy(&self, style: &str) -> String {
        let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
        let scripts: Vec<String> = self.scripts.iter().map(|script| hash(script)).collect();
        let scripts = if scripts.is_empty() { "'none'".to_owned() } else { scripts.join(" ") };
        let style = hash(style);
        let asked = match self.reach {
            Reach::Nothing => "img-src data:; form-action 'none'",
            Reach::OwnServer => "img-src data: blob: 'self'; connect-src 'self'; form-action 'self'",
        };
        format!("default-src 'none'; script-src {scripts}; style-src {style}; {asked}; base-uri 'none'")
    }
}

impl Data<'_> {
    fn element(&self) -> String {
        format!("<script type=\"application/json\" id=\"{}\">{}</script>\n", escape(self.id), self.json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(reach: Reach) -> String {
        let data = [Data { id: "numbers", json: "[1,2]" }];
        let (title, body) = ("a < b", "<p>text</p>");
        Document { title, reach, style: "p { margin: 0 }", body, data: &data, scripts: &["let a = 1;"] }
            .render()
    }

    #[test]
    fn a_document_names_all_that_runs_in_it() {
        let text = document(Reach::Nothing);
        let hash = STANDARD.encode(Sha256::digest("let a = 1;"));
        assert!(text.contains(&format!("script-src 'sha256-{hash}';")), "{text}");
        assert!(text.contains("<script>let a = 1;</script>"), "{text}");
        let style = text.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(text.contains(&format!("style-src 'sha256-{hash}';")), "{text}");
        assert!(text.contains("default-src 'none'") && !text.contains("connect-src"), "{text}");
        assert!(text.contains("<title>a &lt; b</title>"), "{text}");
        assert!(document(Reach::OwnServer).contains("connect-src 'self'"));
    }

    #[test]
    fn a_document_is_known_by_its_beginning() {
        assert!(document(Reach::Nothing)[..1024].contains(GENERATOR));
    }

    #[test]
    fn what_is_included_ends_no_element() {
        for (name, text, end) in [
            ("colours", COLOURS, "</style"),
            ("theme", THEME, "</style"),
            ("page", PAGE, "</script"),
            ("chart", CHART, "</script"),
        ] {
            assert!(!text.contains(end) && !text.contains("<!--"), "{name}");
        }
    }
}
