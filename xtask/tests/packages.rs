//! Publishable packages are complete and take nothing from outside their folders. `.ci/run` packs them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod files;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use cargo_metadata::semver::Version;
use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use files::{read, root};

/// Crates that are for this repository alone.
const PRIVATE: [&str; 5] = ["ebm-bench", "ebm-python", "ebm-testing", "own-task", "xtask"];

fn packages() -> Vec<Package> {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap().packages
}

fn published() -> impl Iterator<Item = Package> {
    packages().into_iter().filter(|package| package.publish.is_none())
}

#[test]
fn only_what_is_for_this_repository_is_private() {
    let mut private: Vec<String> = packages()
        .into_iter()
        .filter(|package| package.publish.is_some())
        .map(|package| package.name.to_string())
        .collect();
    private.sort();
    assert_eq!(private, PRIVATE);
}

#[test]
fn a_package_says_what_it_is_and_under_which_terms() {
    let texts = ["LICENSE-MIT", "LICENSE-APACHE"].map(read);
    let mut count = 0;
    for package in published() {
        let name = package.name.as_str();
        let folder = package.manifest_path.parent().unwrap();
        let has = |file: &str| {
            std::fs::read_to_string(folder.join(file))
                .unwrap_or_else(|error| panic!("{name}/{file}: {error}"))
        };
        assert_eq!(["LICENSE-MIT", "LICENSE-APACHE"].map(has), texts, "{name}");
        assert!(
            has("Cargo.toml").contains("\nexclude.workspace = true\n"),
            "{name} would be packed with its tests"
        );
        assert_eq!(package.license.as_deref(), Some("MIT OR Apache-2.0"), "{name}");
        assert!(package.description.is_some() && !package.categories.is_empty(), "{name}");
        assert!((1..=5).contains(&package.keywords.len()), "{name}: {:?}", package.keywords);
        assert!(package.keywords.iter().all(|word| word.len() <= 20), "{name}: {:?}", package.keywords);
        assert_eq!(package.documentation.as_deref(), Some(format!("https://docs.rs/{name}").as_str()));
        let readme = has("README.md");
        assert!(readme.starts_with(&format!("# {name}\n")) && readme.contains("**Never:**"), "{name}");
        let lib = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap_or_default();
        let tested = readme.contains("```rust") && lib.contains("doc = include_str!(\"../README.md\")");
        assert!(tested || readme.contains("```sh"), "the example of {name}/README.md is no test");
        count += 1;
    }
    assert!(count > 15, "{count} crates");
}

#[test]
fn what_a_package_depends_on_is_published_too() {
    for package in published() {
        for used in package.dependencies.iter().filter(|used| used.path.is_some()) {
            let tests_alone = used.kind == DependencyKind::Development && used.req.to_string() == "*";
            let private = PRIVATE.contains(&used.name.as_str());
            assert_eq!(private, tests_alone, "{} uses {} {}", package.name, used.name, used.req);
        }
    }
}

/// A path without `..`, as if nothing were a link.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{} leaves the tree", path.display()),
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn what_is_compiled_in_lies_in_the_package() {
    let mut found = 0;
    for path in files::sources(&["crates"]) {
        let mut parts = Path::new(&path).components();
        let folder: PathBuf = parts.by_ref().take(2).collect();
        let name = folder.file_name().unwrap().to_str().unwrap();
        if PRIVATE.contains(&name) || parts.next() != Some(Component::Normal("src".as_ref())) {
            continue;
        }
        let text = read(&path);
        for macro_name in ["include_str!(", "include_bytes!("] {
            for (at, _) in text.match_indices(macro_name) {
                let argument = &text[at + macro_name.len()..];
                let argument = argument.trim_start().trim_start_matches("concat!(").trim_start();
                let literal = argument.strip_prefix('"').and_then(|rest| rest.split('"').next());
                let literal = literal.unwrap_or_else(|| panic!("{path}: {macro_name} of no literal path"));
                let file = plain(&Path::new(&path).parent().unwrap().join(literal));
                // A page of the book is a test of the repository, which packages leave out.
                if file.starts_with("docs") && text[..at].ends_with("#[cfg(doctest)]\n#[doc = ") {
                    continue;
                }
                assert!(file.starts_with(&folder), "{path} includes {}", file.display());
                found += 1;
            }
        }
    }
    assert!(found > 30, "{found} inclusions");
}

/// Returns `rust-version`, which must agree with CONTRIBUTING.md.
fn oldest() -> Version {
    let versions: BTreeSet<Version> = packages()
        .into_iter()
        .map(|package| package.rust_version.unwrap_or_else(|| panic!("{} has no rust-version", package.name)))
        .collect();
    assert_eq!(versions.len(), 1, "packages of one workspace ask for different compilers: {versions:?}");
    versions.into_iter().next().unwrap()
}

#[test]
fn the_oldest_compiler_is_not_newer_than_the_one_that_tests_run_with_and_the_pages_name_it() {
    let (toolchain, oldest) = (read("rust-toolchain.toml"), oldest());
    let channel = toolchain.split("channel = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(oldest <= channel.parse::<Version>().unwrap(), "{oldest} is newer than {channel}");
    for page in ["CONTRIBUTING.md", "docs/commands.md"] {
        assert!(read(page).contains(&format!("Rust {oldest}")), "{page} does not name Rust {oldest}");
    }
}

/// Clippy reports what the standard library has had for less long than `rust-version` says, once nothing silences it.
#[test]
fn clippy_knows_the_oldest_compiler() {
    assert!(read("Cargo.toml").contains("\nincompatible_msrv = \"warn\"\n"));
    assert!(!read("clippy.toml").contains("msrv"), "clippy.toml has the last word over rust-version");
    for path in files::sources(&["crates", "xtask"]) {
        let silenced = path != "xtask/tests/packages.rs" && read(&path).contains("incompatible_msrv");
        assert!(!silenced, "{path} silences clippy::incompatible_msrv");
    }
}

#[test]
fn no_dependency_asks_for_a_newer_compiler_than_the_packages() {
    // What other systems alone take need not have been fetched.
    let options = ["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"].map(str::to_owned).to_vec();
    let mut all = MetadataCommand::new();
    let all = all.manifest_path(root().join("Cargo.toml")).other_options(options).exec().unwrap();
    let oldest = oldest();
    let asks = all.packages.iter().filter(|package| package.rust_version.is_some()).count();
    assert!(asks > 150, "{asks} packages say what they ask for");
    let newer: Vec<String> = all
        .packages
        .iter()
        .filter(|package| package.rust_version.as_ref().is_some_and(|version| *version > oldest))
        .map(|package| format!("{} {} asks for {:?}", package.name, package.version, package.rust_version))
        .collect();
    assert!(newer.is_empty(), "{newer:#?}");
}
