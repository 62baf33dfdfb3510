//! The book: every page is in it, every link leads somewhere, every task that it names is one, every example is a test.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "not every test that includes this file needs it")]
mod files;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use files::{read, root};

/// The pages of a folder with this name at their end, named from the root.
fn list(folder: &str, end: &str) -> Vec<String> {
    let entries = root().join(folder).read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| format!("{folder}/{}{end}", name.to_str().unwrap()));
    let mut names: Vec<String> = names.filter(|name| root().join(name).is_file()).collect();
    names.sort();
    names
}

/// Returns the pages that may be chapters.
fn chapters() -> Vec<String> {
    let mut pages = list("docs", "");
    pages.extend(list("docs/notes", ""));
    pages.extend(list("docs", "/README.md"));
    pages.retain(|page| page.ends_with(".md") && page != "docs/SUMMARY.md");
    pages
}

/// The lines of a page outside of its blocks of code, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    numbered
        .filter(|(_, line)| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
        .collect()
}

/// Returns the targets of a line's links, without code.
fn links(line: &str) -> Vec<String> {
    let words: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
    let behind = words.split("](").skip(1).filter_map(|part| part.split(')').next());
    behind.map(str::to_owned).collect()
}

/// The name that a heading has in addresses, on the forge and in the book.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#'))).collect()
}

/// A path from a page, named from the root.
fn resolved(page: &str, path: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(path).components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{page}: {path} leaves the repository"),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the faults in the links of a page.
fn broken(page: &str, text: &str, book: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (line, link) in
        prose(text).into_iter().flat_map(|(at, line)| links(line).into_iter().map(move |l| (at, l)))
    {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, name) = link.split_once('#').unwrap_or((&link, ""));
        let target = if path.is_empty() { PathBuf::from(page) } else { resolved(page, path) };
        let target = target.to_str().unwrap();
        let mut wrong = |what: &str| found.push(format!("{page}:{line}: {link}: {what}"));
        if !root().join(target).exists() {
            wrong("there is no such file");
        } else if book.iter().any(|chapter| chapter == page) && !target.starts_with("docs/") {
            wrong("it is not in the book: name the file instead");
        } else if !name.is_empty() && !anchors(&read(target)).contains(name) {
            wrong("the page has no such heading");
        }
    }
    found
}

#[test]
fn every_page_is_a_chapter() {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<String> = summary.lines().flat_map(links).map(|link| format!("docs/{link}")).collect();
    let distinct: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(distinct.len(), listed.len(), "a page is in docs/SUMMARY.md twice");
    let pages = chapters();
    assert_eq!(distinct, pages.iter().collect(), "docs/SUMMARY.md on the left, the pages on the right");
    assert!(pages.len() > 20, "{} pages", pages.len());
}

#[test]
fn every_link_leads_somewhere() {
    let book = chapters();
    let mut pages = book.clone();
    pages.extend(
        ["README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY"].map(|name| format!("{name}.md")),
    );
    pages.extend(["datasets", "weights", "examples/own_task"].map(|folder| format!("{folder}/README.md")));
    pages.extend(list("crates", "/README.md"));
    let found: Vec<String> = pages.iter().flat_map(|page| broken(page, &read(page), &book)).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    let checked: usize =
        pages.iter().map(|page| prose(&read(page)).iter().flat_map(|(_, line)| links(line)).count()).sum();
    assert!(checked > 100, "{checked} links");
}

#[test]
fn a_broken_link_is_found() {
    let book = ["docs/toy.md".to_owned()];
    let of = |text: &str| broken("docs/toy.md", text, &book).len();
    assert_eq!(of("[a](json.md), ![b](figure2.png), [c](json.md#expected-figures), [d](https://x.y/z)"), 0);
    assert_eq!(of("`[a](gone.md)`\n```text\n[a](gone.md)\n```\n"), 0);
    assert_eq!(of("[a](gone.md) and [b](gone.png)"), 2);
    assert_eq!(of("[a](json.md#gone) [b](#gone) [c](../README.md)"), 3);
    assert_eq!(anchor("Dataset 1, the paper's `f(x, y)`"), "dataset-1-the-papers-fx-y");
}

#[test]
fn every_task_that_a_page_names_is_one() {
    let mut found = 0;
    for page in chapters().into_iter().chain(["README.md", "CONTRIBUTING.md"].map(str::to_owned)) {
        for line in read(&page).lines().filter_map(|line| line.strip_prefix("cargo xtask ")) {
            let words: Vec<&str> = line.split(" #").next().unwrap().split_whitespace().collect();
            // Those that become `ebm` pass on whatever they are given, and ebm-cli's tests try them.
            if ["reproduce", "download"].contains(&words[0]) {
                continue;
            }
            let output =
                Command::new(env!("CARGO_BIN_EXE_xtask")).args(&words).arg("--help").output().unwrap();
            assert!(output.status.success(), "{page}: {line}: {}", String::from_utf8_lossy(&output.stderr));
            found += 1;
        }
    }
    assert!(found > 5, "{found} tasks");
}

#[test]
fn every_example_is_a_test() {
    let libraries: String = list("crates", "/src/lib.rs").iter().map(|path| read(path)).collect();
    let mut found = 0;
    for page in chapters().into_iter().chain(["README.md".to_owned()]) {
        if read(&page).lines().any(|line| line.starts_with("```rust")) {
            let included = format!("#[cfg(doctest)]\n#[doc = include_str!(\"../../../{page}\")]");
            assert!(libraries.contains(&included), "{page} has Rust, and no crate has\n{included}");
            found += 1;
        }
    }
    assert!(found > 1, "{found} pages with Rust");
}
