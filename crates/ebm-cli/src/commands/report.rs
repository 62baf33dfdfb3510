//! `ebm report`: shows runs as one page for a browser.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_data::files::write_atomic;
use ebm_web::page::GENERATOR;
use ebm_web::report::{Run, page};

#[derive(Args)]
pub struct ReportArgs {
    /// Folders of trainings, fits and reproductions, which may be unfinished.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// HTML file to write. It needs no network.
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
    /// Replace the file even if it is no report.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &ReportArgs) -> Result<()> {
    let out = args.out.display();
    if !args.force && args.out.is_file() && !is_page(&args.out)? {
        bail!(
            "{out} is there already and is no report; give another name with --out, or --force to replace it"
        );
    }
    let names = names(&args.runs);
    let runs = args.runs.iter().zip(&names).map(|(folder, name)| Run::read(folder, name));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    write_atomic(&args.out, page(&runs, None).as_bytes())?;
    let noted: usize = runs.iter().map(|run| run.notes.len()).sum();
    if noted > 0 {
        eprintln!("{noted} problems were found in the runs; the page lists them");
    }
    println!("{out}");
    Ok(())
}

/// Returns `true` if the file is a page made by this program.
fn is_page(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let read = ebm_base::files::open_input(path).and_then(|file| file.take(1024).read_to_end(&mut start));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&start).contains(GENERATOR))
}

/// Returns short names for runs: the shortest ends of their paths that differ. Whole paths would tell whose machine it
/// is.
fn names(runs: &[PathBuf]) -> Vec<String> {
    let whole: Vec<PathBuf> =
        runs.iter().map(|run| std::fs::canonicalize(run).unwrap_or_else(|_| run.clone())).collect();
    let end = |path: &Path, length: usize| {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        parts[parts.len().saturating_sub(length)..].join("/")
    };
    let name = |path: &PathBuf| {
        let is_own = |length: &usize| {
            whole.iter().filter(|other| end(other, *length) == end(path, *length)).count() == 1
        };
        let length = (1..path.iter().count()).find(is_own).unwrap_or(1);
        end(path, length)
    };
    whole.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_name_are_told_apart() {
        let runs = ["/a/x", "/b/x", "/b/y"].map(PathBuf::from);
        assert_eq!(names(&runs), ["a/x", "b/x", "y"]);
        let twice = ["/a/x", "/a/x"].map(PathBuf::from);
        assert_eq!(names(&twice), ["x", "x"]);
    }
}
