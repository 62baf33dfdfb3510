//! A page of HTML as a single file with its style, scripts, data and pictures; its policy lets nothing else run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Style of every page.
const STYLE: &str = include_str!("style.css");
/// Script of every page, which records errors, sorts tables and reloads the page.
pub(crate) const PAGE: &str = include_str!("page.js");
/// Script that draws curves; [`PAGE`] must run before it.
pub(crate) const CHART: &str = include_str!("chart.js");

/// Mark within the first kilobyte of every page, by which a program recognises a file that it may replace.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"ebm\">";

/// Contents of a page. Only the title is escaped here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a> {
    /// Title as plain text.
    pub title: &'a str,
    /// Whether the page may send requests to the server that it came from; a page from a file may not.
    pub is_served: bool,
    /// CSS in addition to the style of every page.
    pub style: &'a str,
    /// HTML without scripts, styles and event handlers, which the policy would block.
    pub body: &'a str,
    /// Data for the script of charts.
    pub charts: Option<&'a Value>,
    /// Scripts in their order; they run after the body is loaded.
    pub scripts: &'a [&'a str],
}

impl Document<'_> {
    /// Returns the page as the text of an HTML file.
    pub fn render(&self) -> String {
        let (title, body) = (escape(self.title), self.body);
        let style = format!("{STYLE}\n{}", self.style);
        let policy = self.policy(&style);
        let data = self.charts.map_or(String::new(), |charts| {
            // In JSON, `<` occurs only in strings, where `\u003c` is equivalent.
            let json = charts.to_string().replace('<', "\\u003c");
            format!("<script type=\"application/json\" id=\"charts\">{json}</script>\n")
        });
        let script = |script: &&str| format!("<script>{script}</script>\n");
        let scripts: String = self.scripts.iter().map(script).collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{GENERATOR}\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n{body}\n\
             {data}{scripts}</body>\n</html>\n"
        )
    }

    /// Returns the policy: it allows the style and the scripts by their hashes, so that nothing in the body runs.
    fn policy(&self, style: &str) -> String {
        let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
        let scripts: Vec<String> = self.scripts.iter().map(|script| hash(script)).collect();
        let (scripts, style) = (scripts.join(" "), hash(style));
        let asked = if self.is_served {
            "img-src data: blob: 'self'; connect-src 'self'"
        } else {
            "img-src data:; form-action 'none'"
        };
        format!("default-src 'none'; script-src {scripts}; style-src {style}; {asked}; base-uri 'none'")
    }
}

/// Escapes `text` for an element or, between double quotes, for an attribute. Control characters become the
/// replacement character U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns bytes of the media type `kind`, such as `image/png`, as a data URI.
pub(crate) fn data_uri(kind: &str, bytes: &[u8]) -> String {
    format!("data:{kind};base64,{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(is_served: bool) -> String {
        let charts = serde_json::json!(["</script><!--"]);
        let scripts = &["let a = 1;"];
        let (title, style) = ("a < b", "p { margin: 0 }");
        Document { title, is_served, style, body: "<p>text</p>", charts: Some(&charts), scripts }.render()
    }

    #[test]
    fn a_document_names_all_that_runs_in_it() {
        let text = document(false);
        let hash = STANDARD.encode(Sha256::digest("let a = 1;"));
        assert!(text.contains(&format!("script-src 'sha256-{hash}';")), "{text}");
        let style = text.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(text.contains(&format!("style-src 'sha256-{hash}';")), "{text}");
        assert!(text.contains("default-src 'none'") && !text.contains("connect-src"), "{text}");
        assert!(text.contains("<title>a &lt; b</title>") && text.contains("[\"\\u003c/script>"), "{text}");
        assert!(text[..1024].contains(GENERATOR));
        assert!(document(true).contains("connect-src 'self'"));
    }

    #[test]
    fn no_text_becomes_an_element() {
        let text = "<script>alert('1 & \"2\"')</script>\u{0}\u{1b}\n";
        let expected =
            "&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;\u{fffd}\u{fffd}\n";
        assert_eq!(escape(text), expected);
    }
}
