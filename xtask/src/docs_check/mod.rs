//! `cargo xtask docs-check`: no number in a table of README.md and docs/*.md differs from the CSV file that
//! it is from.
//!
//! A table of measurements has a marker directly above it, which readers of the page do not see:
//!
//! ```text
//! <!-- table: results/toy.csv, results/paper.csv
//! by: cargo xtask reproduce toy
//! where: dataset=dataset1
//! rows: method
//! columns: count(kl) | mean(kl) sd(kl) | 100*min(kl) [refined=false] | =device | -
//! -->
//! ```
//!
//! | line | what it says |
//! |---|---|
//! | `table` | the CSV files, from the page's folder; their records are taken together |
//! | `by` | the one command that makes the first of them; scripts that it names exist |
//! | `where` | which records count; a condition on a column that a file lacks leaves that file's records alone |
//! | `rows` | the columns whose values are the first cells of a row; `method: direct, ebm` lists what the rows are instead |
//! | `columns` | a specification for each further cell, separated by `\|` |
//!
//! A specification is `-` (no number in the cell), `=column` (the cell is that text) or an expression for
//! each number of the cell: a product or quotient of columns and numbers, or `mean`, `sd`, `min`, `max`,
//! `count` of one; `[…]` behind them are conditions of this cell alone. Empty values are left out; what has
//! no value at all has no number in its cell. A number agrees when it is the value rounded to the decimals
//! that are shown.
//!
//! A table without measurements that shows a decimal number is marked `<!-- table: none -->`.

mod expression;
mod marker;
mod page;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::page::Finding;

/// What no page names: it is not in the repository.
const FOREIGN: &str = "shared/";

/// Checks all pages below `root`; returns the exit code.
pub fn run(root: &Path) -> Result<i32> {
    let (findings, tables) = check(root)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        eprintln!("docs-check: the numbers of {tables} tables agree with their CSV files");
        return Ok(0);
    }
    eprintln!("docs-check: {} findings", findings.len());
    Ok(1)
}

/// All that is wrong, and the number of tables that were compared.
fn check(root: &Path) -> Result<(Vec<Finding>, usize)> {
    let docs = root.join("docs");
    let mut pages = vec![root.join("README.md")];
    pages.extend(files(&docs, "md")?);
    let (mut findings, mut tables, mut used) = (Vec::new(), 0, BTreeSet::new());
    for path in pages {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let page = page::check(root, &path, &name, &text);
        tables += page.tables;
        findings.extend(page.findings);
        for (index, line) in text.lines().enumerate() {
            if line.contains(FOREIGN) {
                let what = format!("`{FOREIGN}` is not in the repository; name what a reader can get");
                findings.push(Finding { page: name.clone(), line: index + 1, what });
            }
        }
        used.extend(
            text.split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)))
                .filter_map(|word| word.trim_end_matches('.').rsplit('/').next())
                .filter(|word| word.ends_with(".csv"))
                .map(str::to_owned),
        );
    }
    for path in files(&docs.join("results"), "csv")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !used.contains(&name) {
            let what = "no page refers to it; remove it, or mark the table that it belongs to".to_owned();
            findings.push(Finding { page: format!("docs/results/{name}"), line: 1, what });
        }
    }
    Ok((findings, tables))
}

/// The files of a folder with this extension, by name.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries =
        folder.read_dir().with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut found = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found.sort();
    Ok(found)
}
