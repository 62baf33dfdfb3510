//! The files of the page, as they are in this program.

use hyper::StatusCode;

use crate::answer::{Answer, bytes};

/// A file: its name, media type and content.
type File = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All of them; the page itself has no name.
const FILES: [File; 8] = [
    ("", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("colours.css", "text/css; charset=utf-8", ebm_page::COLOURS),
    ("demo.css", "text/css; charset=utf-8", include_str!("page/demo.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("app.js", SCRIPT, include_str!("page/app.js")),
    ("common.js", SCRIPT, include_str!("page/common.js")),
    ("plot.js", SCRIPT, include_str!("page/plot.js")),
    ("boxes.js", SCRIPT, include_str!("page/boxes.js")),
];

/// The file of this name.
pub fn file(name: &str) -> Option<Answer> {
    let (_, media_type, text) = FILES.iter().find(|(known, ..)| *known == name)?;
    Some(bytes(StatusCode::OK, media_type, text.as_bytes().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_page_is_inline() {
        let (_, _, page) = FILES[0];
        assert!(!page.contains("style=") && !page.contains("<style") && !page.contains("javascript:"));
        for script in page.split("<script").skip(1) {
            assert!(script.trim_start().starts_with("type=\"module\" src="), "{script}");
        }
        assert!(page.split_whitespace().all(|word| !(word.starts_with("on") && word.contains('='))));
        for (name, _, text) in FILES {
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name}");
        }
    }
}
