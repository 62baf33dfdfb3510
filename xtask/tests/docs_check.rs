//! `cargo xtask docs-check` on small trees, and on this one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// The exit code and what is said.
fn docs_check(arguments: &[&Path]) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_xtask")).arg("docs-check").args(arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

const README: &str = "# Title\n\nNo table here.\n";
const CSV: &str = "method,seed,ap,form\na,0,0.410,fast\na,1,0.430,fast\nb,0,0.300,\n";
const PAPER: &str = "table,method,paper_ap\n2,a,39.4\n2,b,37.2\n4,a,1.5\n";
const PAGE: &str = "Text.\n
<!-- table: results/ours.csv, results/paper.csv
by: cargo xtask reproduce detection
where: table=2
rows: method
columns: mean(100*ap) sd(100*ap) | 100*ap [seed=0] | count(ap) | =form | paper_ap | -
-->
| method | AP | seed 0 | models | form | paper: AP | note |
|---|--:|--:|--:|---|--:|---|
| a | **42.0 ± 1.4** | 41 | 2 | `fast` | 39.4 | ok |
| b | 30.0 | 30.0 | 1 | – | 37.2 | |
";

/// What docs-check says of a tree with these files.
fn of(readme: &str, page: &str, csv: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("docs/results");
    std::fs::create_dir_all(&results).unwrap();
    for (path, text) in [("README.md", readme), ("docs/page.md", page)] {
        std::fs::write(folder.path().join(path), text).unwrap();
    }
    for (path, text) in [("ours.csv", csv), ("paper.csv", PAPER)] {
        std::fs::write(results.join(path), text).unwrap();
    }
    docs_check(&[folder.path()])
}

#[test]
fn a_table_that_agrees_passes() {
    let (code, said) = of(README, PAGE, CSV);
    assert_eq!(
        (code, said.as_str()),
        (0, "docs-check: the numbers of 1 tables agree with their CSV files\n")
    );
}

#[test]
fn what_differs_is_named_with_its_place() {
    for (from, to, expected) in [
        // A wrong digit of a mean, of a spread, of a selected value, of a count, of the paper's, and a wrong
        // word.
        (
            "42.0 ± 1.4",
            "42.1 ± 1.4",
            "docs/page.md:11: column `AP`: `42.1 ± 1.4` is in the table, 42.000000, 1.414214",
        ),
        ("42.0 ± 1.4", "42.0 ± 1.5", "docs/page.md:11: column `AP`"),
        ("42.0 ± 1.4", "42.0", "docs/page.md:11: column `AP`"),
        ("| 41 |", "| 42 |", "column `seed 0`"),
        ("| 2 |", "| 3 |", "column `models`"),
        ("39.4", "39.5", "column `paper: AP`"),
        ("`fast`", "slow", "column `form`: `slow` is in the table, `fast` in the file"),
        ("| – |", "| slow |", "column `form`"),
        // One number too many, and one that nothing accounts for.
        ("| 30.0 | 30.0 |", "| 30.0 (29.0) | 30.0 |", "docs/page.md:12: column `AP`"),
        ("| ok |", "| 0.5 better |", "column `note`: `0.5 better` holds a number that nothing accounts for"),
        (
            "| b |",
            "| c |",
            "docs/page.md:12: results/ours.csv, results/paper.csv has no record with method = c",
        ),
        // Markers.
        ("columns: mean(100*ap)", "columns: mean(100*aq)", "has no column `aq`"),
        ("| -\n", "\n", "the row has 7 cells, the marker 6"),
        ("[seed=0]", "", "2 records with different values"),
        ("where: table=2\n", "where table=2\n", "is no line `name: value`"),
        ("cargo xtask reproduce detection", "something", "`by` must be the command that makes the file"),
        (
            "cargo xtask reproduce detection",
            "python no/such.py",
            "the command names no/such.py, which does not exist",
        ),
        ("ours.csv,", "gone.csv,", "cannot read"),
        ("-->\n|", "-->\n\n|", "there is no table directly below this marker"),
        ("| ok |", "| [ok](x) by 0.5 (of 2) |", "holds a number that nothing accounts for"),
        ("<!-- table", "<!-- tables", "a decimal number in a table without a marker"),
        ("Text.", "Take ../shared/data.", "docs/page.md:1: `shared/` is not in the repository"),
    ] {
        assert!(PAGE.contains(from), "{from}");
        let (code, said) = of(README, &PAGE.replacen(from, to, 1), CSV);
        assert!(code == 1 && said.contains(expected), "{from} -> {to}\n{said}");
    }
    // The file's numbers change instead of the page's.
    let (code, said) = of(README, PAGE, &CSV.replace("0.430", "0.450"));
    assert!(
        code == 1 && said.contains("`42.0 ± 1.4` is in the table, 43.000000, 2.828427 in the file"),
        "{said}"
    );
}

#[test]
fn tables_without_measurements_and_code_need_nothing() {
    let code =
        "```\n| 0.5 |\n```\n| option | what |\n|---|---|\n| `--eta 0.5` | [version](x/0.2.md) in 3 steps |\n";
    let none = "<!-- table: none -->\n| version |\n|---|\n| 0.11 |\n";
    let page = format!("{code}\n{none}\n{PAGE}");
    assert_eq!(of(README, &page, CSV).0, 0, "{}", of(README, &page, CSV).1);
}

#[test]
fn a_file_that_no_page_uses_is_named() {
    let unused = "docs/results/paper.csv:1: no page refers to it";
    let page = "| a |\n|---|\n| [all](results/ours.csv) |\n";
    let (code, said) = of(README, page, CSV);
    assert!(code == 1 && said.contains(unused), "{said}");
    assert_eq!(of("See docs/results/paper.csv.\n", page, CSV).0, 0);
}

#[test]
fn this_repository_agrees_with_its_files() {
    let (code, said) = docs_check(&[]);
    assert_eq!(code, 0, "{said}");
}
