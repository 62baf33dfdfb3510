//! The files of the page, as they are in this program.

use ebm_server::{Answer, StatusCode, bytes};

/// A file: its name, media type and content.
type File = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All of them; the page itself has no name.
const FILES: [File; 13] = [
    ("", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("colours.css", "text/css; charset=utf-8", ebm_page::COLOURS),
    ("demo.css", "text/css; charset=utf-8", include_str!("page/demo.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("page.js", SCRIPT, ebm_page::PAGE),
    ("chart.js", SCRIPT, ebm_page::CHART),
    ("app.js", SCRIPT, include_str!("page/app.js")),
    ("common.js", SCRIPT, include_str!("page/common.js")),
    ("plot.js", SCRIPT, include_str!("page/plot.js")),
    ("box.js", SCRIPT, include_str!("page/box.js")),
    ("boxes.js", SCRIPT, include_str!("page/boxes.js")),
    ("toy.js", SCRIPT, include_str!("page/toy.js")),
    ("ages.js", SCRIPT, include_str!("page/ages.js")),
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
            let script = script.trim_start().trim_start_matches("type=\"module\"").trim_start();
            assert!(script.starts_with("src="), "{script}");
        }
        assert!(page.split_whitespace().all(|word| !(word.starts_with("on") && word.contains('='))));
        for (name, _, text) in FILES {
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name}");
        }
    }
}
