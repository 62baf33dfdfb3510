//! Plain English in doc comments.

use super::rules::Source;

/// Words that no doc comment begins with: a summary is read alone, and says the thing itself.
const FIRST: [&str; 15] = [
    "What", "Which", "Whose", "Of", "Those", "That", "As", "It", "Its", "Their", "They", "Why", "How",
    "Where", "The same",
];

/// Turns that a reader has to decode.
const TURNS: [&str; 14] = [
    "so many",
    "as many as",
    "of which",
    "what is",
    "the same of",
    "whoever",
    "whatever",
    "once as",
    "so much",
    "none of them",
    "than that of",
    "than those of",
    "and that of",
    "and those of",
];

/// Doc comments of the product that begin with one of [`FIRST`] or hold one of [`TURNS`].
pub fn riddles(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.is_product()) {
        let mut was_doc = false;
        for (index, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let Some(text) = doc.map(str::trim_start) {
                let place = format!("{}:{}", source.path, index + 1);
                let begins = |word: &&&str| {
                    text.strip_prefix(**word).is_some_and(|rest| rest.starts_with([' ', ',', '.']))
                };
                if let Some(word) = FIRST.iter().find(begins).filter(|_| !was_doc) {
                    found.push(format!("{place}: begin with a verb or a noun, not with `{word}`"));
                }
                let lower = format!(" {} ", text.to_lowercase());
                if let Some(turn) = TURNS.iter().find(|turn| lower.contains(&format!(" {turn} "))) {
                    found.push(format!("{place}: say `{turn}` in plain words"));
                }
            }
            was_doc = doc.is_some();
        }
    }
    found
}

#[test]
fn riddles_are_found_and_plain_sentences_are_not() {
    let of = |text: &str| riddles(&[Source::new("crates/a/src/a.rs", text)]).len();
    for bad in [
        "/// What a box is.",
        "//! Of the images.",
        "    /// The same, mirrored.",
        "/// Boxes, none of which moves.\nfn f() {}",
    ] {
        assert_eq!(of(bad), 1, "{bad}");
    }
    let good = [
        "/// Returns the area.\n/// Of two boxes, the larger.",
        "// What a comment says",
        "/// Offsets of boxes.",
        "/// Italics.",
    ];
    for good in good {
        assert_eq!(of(good), 0, "{good}");
    }
    assert!(riddles(&[Source::new("crates/a/tests/a.rs", "/// What a test does.")]).is_empty());
}
