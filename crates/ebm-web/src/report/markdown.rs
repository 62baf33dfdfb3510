//! Conversion of a run's Markdown to HTML.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::pictures::Pictures;
use crate::page::escape;

/// Converts `text` to HTML without any active content. HTML in it is shown as text, only links to the web become links,
/// and a picture is one of `pictures` or its description. Headings begin at the third level, and tables are sortable.
/// The names of the shown pictures are added to `used`.
pub(super) fn render(text: &str, pictures: &Pictures, used: &mut Vec<String>) -> String {
    let mut events = Vec::new();
    // Whether each open link is kept; and the open picture, whose description is text until it ends.
    let mut links = Vec::new();
    let mut picture: Option<(String, String)> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        if let Some((name, mut said)) = picture.take() {
            match event {
                Event::End(TagEnd::Image) => events.push(shown(&name, &said, pictures, used)),
                Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) => {
                    said.push_str(&text);
                    picture = Some((name, said));
                }
                _ => picture = Some((name, said)),
            }
            continue;
        }
        match event {
            Event::Start(Tag::Image { dest_url, .. }) => {
                picture = Some((dest_url.into_string(), String::new()))
            }
            Event::Start(Tag::Link { ref dest_url, .. }) => {
                let leads_on = ["https://", "http://"].iter().any(|start| dest_url.starts_with(start));
                links.push(leads_on);
                events.extend(leads_on.then_some(event));
            }
            Event::End(TagEnd::Link) => events.extend(links.pop().unwrap_or(false).then_some(event)),
            event => events.push(plain(event)),
        }
    }
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    // Only tags of the HTML writer are unescaped here.
    for level in (1..=4).rev() {
        let lower = level + 2;
        out = out.replace(&format!("<h{level}>"), &format!("<h{lower}>"));
        out = out.replace(&format!("</h{level}>"), &format!("</h{lower}>"));
    }
    out.replace("<table>", "<div class=\"table\" tabindex=\"0\"><table>")
        .replace("</table>", "</table></div>")
}

/// Removes the parts of an event that the page's policy refuses.
fn plain(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        // Alignment would need a style; the script aligns columns of numbers.
        Event::Start(Tag::Table(columns)) => {
            Event::Start(Tag::Table(vec![pulldown_cmark::Alignment::None; columns.len()]))
        }
        event => event,
    }
}

fn shown(name: &str, said: &str, pictures: &Pictures, used: &mut Vec<String>) -> Event<'static> {
    let Some(picture) = pictures.named(name) else {
        return Event::Text(CowStr::from(format!("[picture {name}: {said}]")));
    };
    used.push(picture.name.clone());
    Event::InlineHtml(CowStr::from(format!("<img alt=\"{}\" src=\"{}\">", escape(said), picture.uri)))
}

#[cfg(test)]
mod tests {
    use super::super::pictures::Picture;
    use super::*;

    fn rendered(text: &str) -> String {
        let uri = "data:image/png;base64,AAAA".to_owned();
        let shown = vec![Picture { name: "a.svg".to_owned(), uri }];
        render(text, &Pictures { shown, left_out: Vec::new() }, &mut Vec::new())
    }

    #[test]
    fn nothing_of_a_text_runs() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[x](javascript:alert(1))",
            "![x](javascript:alert(1))",
            "<table><tr><td>1</td></tr></table>",
            "| a |\n| - |\n| <script>1</script> |",
            "![<script>x</script>](a.png)",
            "<div>\n\n<style>*{}</style>\n\n</div>",
        ] {
            let html = rendered(text);
            for bad in ["<script", "<style", "<img src=x", "<table><tr", "<div>", "href=\"javascript"] {
                assert!(!html.contains(bad), "{text}: {html}");
            }
        }
    }

    #[test]
    fn tables_headings_links_and_pictures_are_kept() {
        let html = rendered(
            "# T\n\n| a | b |\n|---|--:|\n| x | 1 |\n\n![F(y)](a.png) [l](https://a.b/) ![none](c.png)",
        );
        for part in [
            "<h3>T</h3>",
            "<div class=\"table\" tabindex=\"0\"><table>",
            "<td>1</td>",
            "alt=\"F(y)\"",
            "href=\"https://a.b/\"",
            "[picture c.png: none]",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("style="), "{html}");
    }
}
