//! The files of the page, as they are in this program.

use ebm_server::{Answer, StatusCode, bytes};

/// A file: its name, media type and content.
type File = (&'static str, &'static str, &'static [u8]);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All of them; the page itself has no name.
const FILES: [File; 14] = [
    ("", "text/html; charset=utf-8", include_bytes!("page/index.html")),
    ("colours.css", "text/css; charset=utf-8", ebm_page::COLOURS.as_bytes()),
    ("demo.css", "text/css; charset=utf-8", include_bytes!("page/demo.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("page/icon.svg")),
    ("page.js", SCRIPT, ebm_page::PAGE.as_bytes()),
    ("chart.js", SCRIPT, ebm_page::CHART.as_bytes()),
    ("app.js", SCRIPT, include_bytes!("page/app.js")),
    ("common.js", SCRIPT, include_bytes!("page/common.js")),
    ("plot.js", SCRIPT, include_bytes!("page/plot.js")),
    ("box.js", SCRIPT, include_bytes!("page/box.js")),
    ("boxes.js", SCRIPT, include_bytes!("page/boxes.js")),
    ("toy.js", SCRIPT, include_bytes!("page/toy.js")),
    ("ages.js", SCRIPT, include_bytes!("page/ages.js")),
    ("photograph.jpg", "image/jpeg", include_bytes!("../embedded/photograph.jpg")),
];

/// The file of this name.
pub fn file(name: &str) -> Option<Answer> {
    let &(_, media_type, content) = FILES.iter().find(|(known, ..)| *known == name)?;
    Some(bytes(StatusCode::OK, media_type, content.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_page_is_inline() {
        let texts = FILES.iter().filter(|(_, media_type, _)| !media_type.starts_with("image/jpeg"));
        let texts: Vec<_> = texts.map(|(name, _, text)| (name, std::str::from_utf8(text).unwrap())).collect();
        let (_, page) = texts[0];
        assert!(!page.contains("style=") && !page.contains("<style") && !page.contains("javascript:"));
        for script in page.split("<script").skip(1) {
            let script = script.trim_start().trim_start_matches("type=\"module\"").trim_start();
            assert!(script.starts_with("src="), "{script}");
        }
        assert!(page.split_whitespace().all(|word| !(word.starts_with("on") && word.contains('='))));
        for (name, text) in texts {
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name}");
        }
    }
}
