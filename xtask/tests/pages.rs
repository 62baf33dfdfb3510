//! Names and files in ARCHITECTURE.md, docs/glossary.md and CONTRIBUTING.md exist in the tree.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod files;

use std::collections::BTreeSet;

use files::read;

/// Returns the parts of a line in backticks.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Returns the names in a text.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()).collect()
}

/// Returns every name in the sources of the crates.
fn names_in_code() -> BTreeSet<String> {
    let texts = files::sources(&["crates"]).into_iter().map(|path| read(&path));
    texts.flat_map(|text| names(&text).into_iter().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn the_way_to_eq_4_is_six_files_long_and_as_it_is_told() {
    let page = read("ARCHITECTURE.md");
    let section =
        page.split("\n## ").find(|section| section.starts_with("From the command to Eq. 4")).unwrap();
    let steps: Vec<&str> =
        section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(steps.len(), 6);
    for step in steps {
        let [file, items @ ..] = &quoted(step)[..] else { panic!("{step}") };
        let text = read(file);
        let there = names(&text);
        for item in items.iter().filter(|item| !item.contains(' ') && **item != "ebm") {
            assert!(text.contains(item) && names(item).is_subset(&there), "{file} does not name {item}");
        }
    }
}

#[test]
fn the_glossary_names_what_is_in_the_code() {
    let (page, code) = (read("docs/glossary.md"), names_in_code());
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() > 40, "{} rows", rows.len());
    for row in rows {
        let items = row.trim_end_matches(" |").rsplit_once(" | ").map(|(_, items)| quoted(items)).unwrap();
        assert!(!items.is_empty(), "no item: {row}");
        for name in items.iter().flat_map(|item| names(item)) {
            assert!(code.contains(name), "{name} is not in the code: {row}");
        }
    }
}

#[test]
fn contributors_are_sent_to_files_that_exist() {
    let page = read("CONTRIBUTING.md");
    let mut found = 0;
    for path in page.lines().flat_map(quoted).filter(|path| path.contains('/') && !path.contains(' ')) {
        assert!(files::root().join(path).exists(), "CONTRIBUTING.md names {path}");
        found += 1;
    }
    assert!(found > 20, "{found} files");
}
