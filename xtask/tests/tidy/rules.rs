//! The rules, each a function from source files to what violates it.

use super::source::{code_of, words};

/// A Rust source file.
pub struct Source {
    /// Relative to the workspace's root, with `/` between folders.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The text without comments and literals.
    pub code: String,
}

impl Source {
    /// The file at `path` with this text.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = code_of(&text);
        Self { path, text, code }
    }

    fn is_under(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    pub fn is_product(&self) -> bool {
        self.path.contains("/src/")
    }

    /// `path:line`, for each line of code that the predicate finds.
    fn places(&self, mut found: impl FnMut(&str) -> bool) -> Vec<String> {
        let lines = self.code.lines().enumerate().filter(|(_, line)| found(line));
        lines.map(|(index, _)| format!("{}:{}", self.path, index + 1)).collect()
    }
}

/// Files of the product with more lines than `cap`.
pub fn long_files(sources: &[Source], cap: usize) -> Vec<String> {
    let long = |source: &&Source| source.is_product() && source.text.lines().count() > cap;
    let say = |source: &Source| {
        format!(
            "{} has {} lines, more than {cap}: cut it by concept",
            source.path,
            source.text.lines().count()
        )
    };
    sources.iter().filter(long).map(say).collect()
}

/// Parameters of the product's functions that are tuples.
pub fn tuple_parameters(sources: &[Source]) -> Vec<String> {
    let judged = sources.iter().filter(|source| source.is_product() && !source.path.contains("tests"));
    let mut found = Vec::new();
    for source in judged {
        let code = source.code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (at, _) in code.match_indices("fn ") {
            let tuples = parameters(&code[at + 3..]).into_iter().filter(|parameter| {
                let kind = parameter.rsplit_once(": ").map_or("", |(_, kind)| kind);
                let Some((head, parts)) = kind.split_once('(') else { return false };
                let refers = |word: &str| matches!(word, "&" | "mut" | "&mut") || word.starts_with("&'");
                head.split_whitespace().all(refers) && parts.contains(',')
            });
            let line = code[..at].lines().count();
            found.extend(tuples.map(|parameter| format!("{}:{line}: {}", source.path, parameter.trim())));
        }
    }
    found
}

/// The parameters of the function that starts with this name.
fn parameters(function: &str) -> Vec<&str> {
    let (mut depth, mut first, mut found) = (0_usize, None, Vec::new());
    let mut before = ' ';
    for (at, c) in function.char_indices() {
        match c {
            '(' if depth == 0 => (depth, first) = (1, Some(at + 1)),
            '(' | '[' | '<' => depth += 1,
            '>' if matches!(before, '-' | '=') => {}
            ')' | ']' | '>' => depth = depth.saturating_sub(1),
            ';' | '{' if first.is_none() => return found,
            _ => {}
        }
        if let Some(start) = first.filter(|_| depth == 0 || (depth == 1 && c == ',')) {
            found.push(&function[start..at]);
            first = Some(at + 1);
            if depth == 0 {
                return found;
            }
        }
        before = c;
    }
    found
}

/// Unsafe code outside the crates that may hold it.
pub fn unsafe_code(sources: &[Source], allowed: &[&str]) -> Vec<String> {
    let outside = sources.iter().filter(|source| !allowed.iter().any(|folder| source.is_under(folder)));
    let places = outside.flat_map(|source| source.places(|line| words(line).any(|word| word == "unsafe")));
    places.map(|place| format!("{place}: unsafe code belongs under {}", allowed.join(" or "))).collect()
}

/// Placeholders, and tests and examples that do not run.
pub fn unfinished(sources: &[Source]) -> Vec<String> {
    let placeholder = |line: &str| ["todo!", "unimplemented!"].iter().any(|name| invokes(line, name));
    let ignored = |line: &str| line.contains("#[") && words(line).any(|word| word == "ignore");
    let mut found = Vec::new();
    for source in sources {
        let say = |what: &'static str| move |place: String| format!("{place}: {what}");
        found.extend(
            source.places(placeholder).into_iter().map(say("write the code instead of a placeholder")),
        );
        found.extend(
            source.places(ignored).into_iter().map(say("mend the test or remove it; none is ignored")),
        );
        for (index, line) in source.text.lines().enumerate() {
            if line.trim_start().starts_with("//") && line.contains("```ignore") {
                found.push(format!("{}:{}: let the example run, or mark it `text`", source.path, index + 1));
            }
        }
    }
    found
}

/// Whether the line invokes the macro `name`, which ends in `!`.
fn invokes(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Functions that are not defined exactly once. A method of that name may call it.
pub fn not_defined_once(sources: &[Source], names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let defines = |line: &str| {
            let words: Vec<&str> = words(line).collect();
            words.windows(2).any(|pair| pair == ["fn", name]) && !line.contains("(&self")
        };
        let places: Vec<String> = sources.iter().flat_map(|source| source.places(defines)).collect();
        if places.len() != 1 {
            let places = if places.is_empty() { "nowhere".to_owned() } else { places.join(", ") };
            found.push(format!("fn {name} must be defined once in the tree, not at: {places}"));
        }
    }
    found
}

/// Uses, under `folder`, of the standard library's modules in `modules`.
pub fn standard_modules(sources: &[Source], folder: &str, modules: &[&str]) -> Vec<String> {
    let uses = |line: &str| {
        let mut words = words(line).skip_while(|word| *word != "std");
        words.next().is_some() && words.any(|word| modules.contains(&word))
    };
    let inside = sources.iter().filter(|source| source.is_under(folder));
    let places = inside.flat_map(|source| source.places(uses));
    places.map(|place| format!("{place}: {folder} uses none of std::{{{}}}", modules.join(", "))).collect()
}

/// Sockets and clients of the network in the product, outside the folders `allowed`.
pub fn sockets(sources: &[Source], allowed: &[&str]) -> Vec<String> {
    let of_the_network = ["ureq", "hf_hub", "TcpStream", "TcpListener", "UdpSocket", "UnixStream"];
    let opens = |line: &str| words(line).any(|word| of_the_network.contains(&word));
    let is_allowed = |source: &Source| allowed.iter().any(|folder| source.is_under(folder));
    let judged = sources.iter().filter(|source| source.is_product() && !is_allowed(source));
    let places = judged.flat_map(|source| source.places(opens));
    places.map(|place| format!("{place}: only {} talks to the network", allowed.join(" and "))).collect()
}

/// Draws from a generator that nobody passed. Benchmarks may: what they compute is thrown away.
pub fn ambient_randomness(sources: &[Source]) -> Vec<String> {
    let sources_of_it = [
        "Tensor::rand",
        "rand_like(",
        "randn_like(",
        "thread_rng(",
        "rand::rng(",
        "from_os_rng(",
        "from_entropy(",
    ];
    let draws = |line: &str| sources_of_it.iter().any(|name| line.contains(name));
    let places = sources.iter().flat_map(|source| source.places(draws));
    places.map(|place| format!("{place}: draw from a generator that an ebm_base::Key made")).collect()
}

#[test]
fn a_long_file_is_found() {
    let sources = [
        Source::new("crates/a/src/long.rs", "x\n".repeat(4)),
        Source::new("crates/a/src/just.rs", "x\n".repeat(3)),
        Source::new("crates/a/tests/long.rs", "x\n".repeat(4)),
    ];
    assert_eq!(long_files(&sources, 3), ["crates/a/src/long.rs has 4 lines, more than 3: cut it by concept"]);
}

#[test]
fn a_tuple_is_found_among_parameters() {
    let found = |code: &str| tuple_parameters(&[Source::new("crates/a/src/a.rs", code)]).len();
    assert_eq!(found("fn f((a, b): (u8, u8), c: &'a (u8, u8), d: &mut (u8, Vec<u8>)) {}"), 3);
    assert_eq!(found("fn f<A: Fn(u8) -> (u8, u8)>(\n    a: [u8; 2],\n    (b, c): (A, A),\n) {}"), 1);
    assert_eq!(found("fn f(a: &(dyn A + B), b: (), c: impl Fn((u8, u8)), d: &[(u8, u8)]) -> (u8, u8) {}"), 0);
    assert_eq!(found("#[cfg(test)]\nmod tests { fn f(a: (u8, u8)) {} }"), 0);
}

#[test]
fn unsafe_code_is_found_and_the_word_is_not() {
    let sources = [
        Source::new("crates/a/src/lib.rs", "// unsafe\n#![forbid(unsafe_code)]\nlet x = \"unsafe\";\n"),
        Source::new("crates/a/src/bad.rs", "fn f() {\n    unsafe { g() }\n}\n"),
        Source::new("crates/nn/src/lib.rs", "unsafe { g() }\n"),
        Source::new("crates/nn-more/src/lib.rs", "unsafe fn g() {}\n"),
    ];
    let found = unsafe_code(&sources, &["crates/nn"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("crates/a/src/bad.rs:2:") && found[1].starts_with("crates/nn-more/"),
        "{found:?}"
    );
}

#[test]
fn placeholders_and_ignored_tests_are_found() {
    let bad = [
        "todo!()",
        "x => unimplemented!(\"y\"),",
        "#[ignore]",
        "#[ignore = \"slow\"]",
        "#[cfg_attr(debug, ignore)]",
        "/// ```ignore",
    ];
    for line in bad {
        assert_eq!(unfinished(&[Source::new("crates/a/tests/a.rs", line)]).len(), 1, "{line}");
    }
    let good = ["// todo!()", "is_todo!()", "let ignore = a[0];", "/// ```text", "\"#[ignore]\""];
    assert!(unfinished(&[Source::new("crates/a/src/a.rs", good.join("\n"))]).is_empty());
}

#[test]
fn a_second_and_a_missing_definition_are_found() {
    let text = "pub fn iou(a: Box) {}\n// fn refine()\nfn iou_matrix() {}\nfn iou(&self) {}\n";
    let first = Source::new("crates/a/src/a.rs", text);
    let second = Source::new("crates/b/src/b.rs", "\n    fn iou<T>(a: T) {}\n");
    assert!(not_defined_once(&[first], &["iou"]).is_empty());
    let first = Source::new("crates/a/src/a.rs", "pub fn iou(a: Box) {}\n");
    let found = not_defined_once(&[first, second], &["iou", "refine"]);
    assert!(found[0].ends_with("crates/a/src/a.rs:1, crates/b/src/b.rs:2"), "{found:?}");
    assert!(found[1].contains("fn refine") && found[1].ends_with("nowhere"), "{found:?}");
}

#[test]
fn a_module_of_the_standard_library_is_found() {
    let forbidden =
        |line: &str| !standard_modules(&[Source::new("core/src/a.rs", line)], "core", &["fs"]).is_empty();
    assert!(
        forbidden("use std::fs;")
            && forbidden("use std::{fmt, fs::File};")
            && forbidden("let x = std::fs::read(p);")
    );
    assert!(!forbidden("use std::fmt;") && !forbidden("let fs = 1;") && !forbidden("// std::fs"));
    assert!(standard_modules(&[Source::new("other/src/a.rs", "use std::fs;")], "core", &["fs"]).is_empty());
}

#[test]
fn a_socket_is_found() {
    let opens =
        |path: &str, line: &str| !sockets(&[Source::new(path, line)], &["crates/a/src/fetch"]).is_empty();
    assert!(
        opens("crates/a/src/x.rs", "TcpStream::connect(a)")
            && opens("crates/b/src/fetch/x.rs", "use ureq::Agent;")
    );
    assert!(
        !opens("crates/a/src/fetch/x.rs", "ureq::get(a)")
            && !opens("crates/a/tests/x.rs", "TcpListener::bind(a)")
    );
    assert!(!opens("crates/a/src/x.rs", "// a TcpStream"));
}

#[test]
fn ambient_randomness_is_found() {
    let draws = |line: &str| !ambient_randomness(&[Source::new("crates/a/src/a.rs", line)]).is_empty();
    assert!(draws("let x = Tensor::randn(0f32, 1.0, (2,), d)?;") && draws("let mut rng = rand::rng();"));
    assert!(!draws("let mut rng = key.rng();") && !draws("// not Tensor::randn"));
}
