//! The layering of the workspace: which crate may use which. ARCHITECTURE.md holds the table of allowed
//! edges and these tests read it from there, so that the two cannot differ.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};

type Names = BTreeSet<String>;

/// Every crate may use these in its tests, and the second nowhere else.
const TEST_SUPPORT: [&str; 2] = ["ebm-base", "ebm-testing"];

/// Two versions of one of these would be two incompatible sets of types, or the second copy of a parser of
/// files from outside.
const ONE_VERSION: [&str; 7] = ["candle-core", "candle-nn", "gemm", "rand", "safetensors", "ureq", "zip"];

/// A row of the table.
#[derive(Debug, PartialEq)]
struct Rule {
    /// The workspace's crates that it may use; `None` allows all.
    may_use: Option<Names>,
    /// Names, or prefixes that end in `*`, of packages that it never depends on, not even through others.
    never: Names,
}

/// Contents of a crate's Cargo.toml.
struct Manifest {
    name: String,
    /// Normal and build dependencies.
    dependencies: Names,
    dev_dependencies: Names,
}

/// A package of Cargo.lock.
struct Locked {
    name: String,
    version: String,
    dependencies: Names,
}

/// Reads the table whose header starts with `| crate | may use |`.
fn parse_table(markdown: &str) -> Result<BTreeMap<String, Rule>, String> {
    let mut lines = markdown.lines().skip_while(|line| !line.starts_with("| crate | may use |"));
    lines.next().ok_or("there is no table that starts with `| crate | may use |`")?;
    let mut rules = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, may_use, never] = cells[..] else { return Err(format!("not three cells: {line}")) };
        let may_use = if may_use == "everything" { None } else { Some(names_in(may_use)?) };
        let rule = Rule { may_use, never: names_in(never)? };
        let name = names_in(name)?.pop_first().ok_or_else(|| format!("no crate in: {line}"))?;
        if rules.insert(name, rule).is_some() {
            return Err(format!("the crate has a second row: {line}"));
        }
    }
    Ok(rules)
}

/// The names of a cell such as `` `a`, `b` ``; a dash stands for none.
fn names_in(cell: &str) -> Result<Names, String> {
    if cell == "—" {
        return Ok(Names::new());
    }
    let name = |part: &str| {
        let name = part.trim().strip_prefix('`').and_then(|part| part.strip_suffix('`'));
        name.map(str::to_owned).ok_or_else(|| format!("`{part}` is neither a `name` nor a dash"))
    };
    cell.split(',').map(name).collect()
}

/// Crates without a row, rows without a crate, and edges that the row does not allow.
fn edge_violations(rules: &BTreeMap<String, Rule>, crates: &[Manifest]) -> Vec<String> {
    let ours: Names = crates.iter().map(|manifest| manifest.name.clone()).collect();
    let mut found: Vec<String> = rules
        .keys()
        .filter(|name| !ours.contains(*name))
        .map(|name| {
            format!("the table in ARCHITECTURE.md has a row for {name}, which is no crate: remove the row")
        })
        .collect();
    for Manifest { name, dependencies, dev_dependencies } in crates {
        let Some(rule) = rules.get(name) else {
            found.push(format!("{name} has no row in the table in ARCHITECTURE.md: extend the table"));
            continue;
        };
        let in_tests = dev_dependencies.iter().filter(|used| !TEST_SUPPORT.contains(&used.as_str()));
        if dependencies.contains(TEST_SUPPORT[1]) {
            found
                .push(format!("{name} uses {} outside its tests: make it a dev-dependency", TEST_SUPPORT[1]));
        }
        for used in dependencies.iter().chain(in_tests).filter(|used| ours.contains(*used)) {
            if rule.may_use.as_ref().is_some_and(|allowed| !allowed.contains(used)) {
                found.push(format!(
                    "{name} may not use {used}: move the code to a layer where both belong, or change the table in \
                     ARCHITECTURE.md and say why"
                ));
            }
        }
    }
    found
}

/// Packages that a crate never depends on and does, with the way to them.
fn never_violations(rules: &BTreeMap<String, Rule>, locked: &[Locked]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, rule) in rules {
        let mut seen = Names::new();
        let mut open = vec![vec![name.as_str()]];
        while let Some(path) = open.pop() {
            let last = path.last().copied().unwrap_or_default();
            if rule.never.iter().any(|pattern| matches(pattern, last)) {
                found.push(format!(
                    "{name} never depends on {last}, but there is a way: {}",
                    path.join(" -> ")
                ));
                continue;
            }
            let next = locked
                .iter()
                .filter(|package| package.name == last)
                .flat_map(|package| &package.dependencies);
            for dependency in next {
                if seen.insert(dependency.clone()) {
                    open.push(path.iter().copied().chain([dependency.as_str()]).collect());
                }
            }
        }
    }
    found
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

/// Packages of `names` that Cargo.lock holds in no version, or in more than one.
fn version_violations(locked: &[Locked], names: &[&str]) -> Vec<String> {
    let versions = |name: &&str| -> Vec<&str> {
        locked
            .iter()
            .filter(|package| package.name == *name)
            .map(|package| package.version.as_str())
            .collect()
    };
    names
        .iter()
        .map(|name| (name, versions(name)))
        .filter(|(_, versions)| versions.len() != 1)
        .map(|(name, versions)| {
            let versions = versions.join(", ");
            format!(
                "Cargo.lock must hold one version of {name}, not [{versions}]: see `cargo tree -i {name}`"
            )
        })
        .collect()
}

/// The packages of a Cargo.lock. Of a dependency only the name is kept.
fn parse_lock(text: &str) -> Vec<Locked> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned()).unwrap_or_default()
    };
    let dependency = |line: &str| {
        let quoted = line.strip_prefix(" \"")?.strip_suffix("\",")?;
        quoted.split(' ').next().map(str::to_owned)
    };
    let package = |block: &str| Locked {
        name: value(block, "name"),
        version: value(block, "version"),
        dependencies: block.lines().filter_map(dependency).collect(),
    };
    text.split("[[package]]").skip(1).map(package).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn table() -> BTreeMap<String, Rule> {
    parse_table(&read("ARCHITECTURE.md")).unwrap_or_else(|error| panic!("ARCHITECTURE.md: {error}"))
}

fn lock() -> Vec<Locked> {
    parse_lock(&read("Cargo.lock"))
}

fn manifests() -> Vec<Manifest> {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap();
    let manifest = |package: &cargo_metadata::Package| {
        let (dev, normal): (Vec<_>, Vec<_>) = package
            .dependencies
            .iter()
            .partition(|dependency| dependency.kind == DependencyKind::Development);
        let names = |dependencies: Vec<&cargo_metadata::Dependency>| {
            dependencies.into_iter().map(|dependency| dependency.name.clone()).collect()
        };
        Manifest { name: package.name.to_string(), dependencies: names(normal), dev_dependencies: names(dev) }
    };
    // The example is a user's: it uses what it likes.
    metadata.packages.iter().filter(|package| package.name.as_str() != "own-task").map(manifest).collect()
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let crates = manifests();
    assert!(crates.iter().any(|manifest| manifest.name == "ebm-core"), "cargo metadata lists no ebm-core");
    let found = edge_violations(&table(), &crates);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn no_crate_depends_on_what_it_never_depends_on() {
    let rules = table();
    for name in ["ebm-data", "ebm-eval", "ebm-synth"] {
        assert!(rules[name].never.contains("candle-*"), "{name} must never depend on candle");
    }
    let found = never_violations(&rules, &lock());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn the_lock_holds_one_version_of_each_pinned_crate() {
    let found = version_violations(&lock(), &ONE_VERSION);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

mod checkers {
    use super::*;

    const TABLE: &str = "Text.\n\n| crate | may use | never depends on |\n|---|---|---|\n\
        | `ebm-base` | — | — |\n| `low` | `ebm-base` | `candle-*`, `zip` |\n| `top` | everything | — |\n\n| `x` | — | — |\n";

    fn names(names: &[&str]) -> Names {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn manifest(name: &str, dependencies: &[&str], dev_dependencies: &[&str]) -> Manifest {
        let (dependencies, dev_dependencies) = (names(dependencies), names(dev_dependencies));
        Manifest { name: name.to_owned(), dependencies, dev_dependencies }
    }

    fn violations(low: Manifest) -> Vec<String> {
        let crates = [manifest("ebm-base", &["rand"], &[]), manifest("top", &["low"], &[]), low];
        edge_violations(&parse_table(TABLE).unwrap(), &crates)
    }

    #[test]
    fn the_table_ends_with_its_last_row() {
        let rules = parse_table(TABLE).unwrap();
        assert_eq!(rules.keys().collect::<Vec<_>>(), ["ebm-base", "low", "top"]);
        let low = Rule { may_use: Some(names(&["ebm-base"])), never: names(&["candle-*", "zip"]) };
        assert_eq!(rules["low"], low);
        assert_eq!(rules["top"].may_use, None);
    }

    #[test]
    fn a_broken_table_is_refused() {
        let header = "| crate | may use | never depends on |\n|---|---|---|\n";
        assert!(parse_table("no table").is_err());
        for row in
            ["| `a` | b | — |", "| `a` | — |", "| `a` | nothing | — |", "| `a` | — | — |\n| `a` | — | — |"]
        {
            assert!(parse_table(&format!("{header}{row}\n")).is_err(), "{row}");
        }
    }

    #[test]
    fn an_edge_outside_the_table_is_found() {
        assert!(violations(manifest("low", &["ebm-base", "rand"], &[])).is_empty());
        assert!(violations(manifest("low", &["top"], &[]))[0].contains("low may not use top"));
        assert!(violations(manifest("low", &[], &["top"]))[0].contains("low may not use top"));
        assert!(violations(manifest("low", &["ebm-base"], &["ebm-base"])).is_empty());
    }

    #[test]
    fn tests_alone_may_add_the_seed_and_what_tests_need() {
        let rule = |may_use| Rule { may_use, never: Names::new() };
        for all in [false, true] {
            let a = ("a".to_owned(), rule((!all).then(Names::new)));
            let support = TEST_SUPPORT.map(|name| (name.to_owned(), rule(Some(Names::new()))));
            let rules = support.into_iter().chain([a]).collect();
            let with = |dependencies: &[&str], dev: &[&str]| {
                let [seed, testing] = TEST_SUPPORT.map(|name| manifest(name, &[], &[]));
                edge_violations(&rules, &[manifest("a", dependencies, dev), seed, testing])
            };
            assert!(with(&[], &TEST_SUPPORT).is_empty());
            assert_eq!(with(&["ebm-base"], &[]).is_empty(), all);
            assert!(with(&["ebm-testing"], &[])[0].contains("dev-dependency"));
        }
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let found = violations(manifest("new", &[], &[]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("row for low") && found[1].contains("new has no row"), "{found:?}");
    }

    const LOCK: &str = "[[package]]\nname = \"low\"\nversion = \"0.1.0\"\ndependencies = [\n \"middle\",\n]\n\n\
        [[package]]\nname = \"middle\"\nversion = \"1.0.0\"\ndependencies = [\n \"candle-core 2.0.0\",\n \"low\",\n]\n\n\
        [[package]]\nname = \"candle-core\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"candle-core\"\nversion = \"2.0.0\"\n";

    #[test]
    fn a_forbidden_package_is_found_behind_others() {
        let found = never_violations(&parse_table(TABLE).unwrap(), &parse_lock(LOCK));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with("low -> middle -> candle-core"), "{found:?}");
        let without = LOCK.replace("candle-core 2.0.0", "candlelight");
        assert!(never_violations(&parse_table(TABLE).unwrap(), &parse_lock(&without)).is_empty());
    }

    #[test]
    fn a_second_version_and_a_missing_package_are_found() {
        let locked = parse_lock(LOCK);
        assert!(version_violations(&locked, &["low", "middle"]).is_empty());
        let found = version_violations(&locked, &["candle-core", "absent"]);
        assert!(found[0].contains("[1.0.0, 2.0.0]") && found[1].contains("not []"), "{found:?}");
    }
}
