//! `xtask/docs_tables.py` on small trees, and on this one; and that pages name the files of `docs/results`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "not every test that includes this file needs it")]
mod files;

use std::path::Path;
use std::process::Command;

use ebm_testing::{needs, program};
use files::{read, root};

/// Returns the exit code and the output, or `None` without Python.
fn docs_tables(arguments: &[&Path]) -> Option<(i32, String)> {
    let python = needs("system", "python3", "install Python 3", program(&["python3"]))?;
    let script = root().join("xtask/docs_tables.py");
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.code().unwrap(), String::from_utf8(said).unwrap()))
}

const CSV: &str = "method,seed,ap,form\na,0,0.410,fast\na,1,0.430,fast\nb,0,0.300,\nc,0,-0.100,\n";
const PAPER: &str = "table,method,paper_ap\n2,a,39.4\n2,b,37.2\n4,a,1.5\n";
const PAGE: &str = "Text.\n
<!-- table: results/ours.csv, results/paper.csv
by: cargo xtask reproduce detection
where: table=2
rows: method
columns: mean(100*ap) sd(100*ap) | 100*ap [seed=0] | count(ap) | =form | paper_ap | 1 1/ap [seed=0]
-->
| method | AP | seed 0 | models | form | paper: AP | ratio |
|---|--:|--:|--:|---|--:|---|
| a | **42.0 ± 1.4** | 41 | 2 | `fast` | 39.4 | 1/2.4 |
| b | 30.0 in RS2 | 30.0 | 1 | – | 37.2 | 1/3.3 |
| c | −10.0 | -1.0e1 | 1 | – | – | 1/-10 |
";

/// Returns the exit code and the output for a tree with this page, and the page afterwards.
fn of(page: &str, check: bool) -> Option<(i32, String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| std::fs::write(folder.path().join(path), text).unwrap();
    std::fs::create_dir_all(folder.path().join("docs/results")).unwrap();
    write("README.md", "```\n| 0.5 |\n```\n| `--eta 0.5` | [version](x/0.2.md) in 3 steps |\n");
    write("docs/page.md", page);
    write("docs/results/ours.csv", CSV);
    write("docs/results/paper.csv", PAPER);
    let arguments = [folder.path(), Path::new("--check")];
    let (code, said) = docs_tables(&arguments[..1 + usize::from(check)])?;
    Some((code, said, std::fs::read_to_string(folder.path().join("docs/page.md")).unwrap()))
}

#[test]
fn numbers_are_written_and_what_cannot_be_is_said() {
    // What rounds right is left alone.
    let none = "\n<!-- table: none -->\n| version |\n|---|\n| 0.11 |\n";
    let page = format!("{PAGE}{none}");
    for check in [true, false] {
        let Some((code, said, after)) = of(&page, check) else { return };
        assert_eq!((code, said.as_str()), (0, "docs_tables: 1 tables, 0 differences from their files\n"));
        assert_eq!(after, page);
    }
    let with = |from: &str, to: &str| {
        assert!(PAGE.contains(from), "{from}");
        PAGE.replacen(from, to, 1)
    };
    for (from, to, line) in [
        ("42.0 ± 1.4", "42.1 ± 1.4", 11),
        ("42.0 ± 1.4", "42.0 ± 1.5", 11),
        ("| 41 |", "| 42 |", 11),
        ("| 2 |", "| 3 |", 11),
        ("39.4", "39.5", 11),
        ("| – | 37.2", "| slow | 37.2", 12),
        ("1/3.3", "1/3.2", 12),
        ("−10.0", "−11.0", 13),
        ("-1.0e1", "-1.1e1", 13),
    ] {
        let page = with(from, to);
        let (code, said, after) = of(&page, true).unwrap();
        assert!(code == 1 && said.starts_with(&format!("docs/page.md:{line}: column `")), "{to}: {said}");
        assert_eq!(after, page);
        assert_eq!(of(&page, false).unwrap().2, PAGE, "{to}");
    }
    for (from, to, expected) in [
        ("42.0 ± 1.4", "42.0", "page.md:11: column `AP`: `**42.0**` has 1 numbers, the file 2: 42.0"),
        ("| 30.0 | 1", "| 30.0 (29.0) | 1", "page.md:12: column `seed 0`: `30.0 (29.0)` has 2 numbers"),
        ("| b |", "| d |", "page.md:12: column `AP`: `30.0 in RS2` has 1 numbers, the file 0"),
        ("mean(100*ap)", "mean(100*aq)", "KeyError: 'aq'"),
        ("mean(100*ap)", "median(100*ap)", "the marker above it"),
        ("=form | ", "", "7 cells in row 1 of 3"),
        ("100*ap [seed=0]", "100*ap", "`100*ap` has 2 values"),
        ("ours.csv,", "gone.csv,", "gone.csv"),
        ("<!-- table", "<!-- tables", "a decimal number in a table without a marker"),
    ] {
        let page = with(from, to);
        let (code, said, after) = of(&page, false).unwrap();
        assert!(code == 1 && said.contains(expected), "{to}: {said}");
        assert_eq!(after, page, "{to}");
    }
}

#[test]
fn the_tables_of_this_repository_are_those_of_its_files() {
    let Some((code, said)) = docs_tables(&[Path::new("--check")]) else { return };
    assert_eq!(code, 0, "{said}");
}

#[test]
fn pages_and_results_name_what_is_here() {
    let names = |folder: &str, end: &str| -> Vec<String> {
        let entries = root().join(folder).read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| format!("{folder}/{}", name.into_string().unwrap()));
        names.filter(|name| name.ends_with(end)).collect()
    };
    let pages: Vec<(String, String)> = ["README.md".to_owned()]
        .into_iter()
        .chain(names("docs", ".md"))
        .chain(names("docs/notes", ".md"))
        .map(|page| (page.clone(), read(&page)))
        .collect();
    for (page, text) in &pages {
        assert!(!text.contains("shared/"), "{page} names what a reader cannot get");
        for line in text.lines().filter_map(|line| line.strip_prefix("by: ")) {
            let scripts = line.split(' ').filter(|word| word.ends_with(".py") || word.ends_with(".sh"));
            for script in scripts {
                assert!(root().join(script).is_file(), "{page} names {script}");
            }
        }
    }
    let results = names("docs/results", ".csv");
    assert!(results.len() > 20, "{} files", results.len());
    for file in results {
        let name = file.rsplit('/').next().unwrap();
        assert!(pages.iter().any(|(_, text)| text.contains(name)), "no page names {file}");
    }
}
