//! `cargo xtask attack`: the program as processes under limits, on thousands of damaged inputs, with faults
//! of the machine, and beside others of its kind. A case depends on its kind and number alone.

mod base;
mod case;
mod damage;
mod faults;
mod further;
mod inputs;
mod program;
mod random;
mod ranks;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use base::Base;
use case::{Case, Fault};
use random::Random;

/// How much is tried, and on what.
#[derive(Debug, Args)]
pub struct AttackArgs {
    /// The most cases of each kind.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    cases: usize,
    /// Only these kinds.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    only: Vec<String>,
    /// Not these kinds.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Only the case of this number, whose folder is kept.
    #[arg(long, value_name = "NUMBER")]
    case: Option<usize>,
    /// The program; by default a release build of it, which is made.
    #[arg(long, value_name = "PATH")]
    pub ebm: Option<PathBuf>,
    /// Seconds that a process may take.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Cases at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// A kind of cases.
struct Kind {
    name: &'static str,
    /// How many there are.
    cases: usize,
    /// What a case does.
    run: fn(&mut Case<'_>) -> Result<()>,
}

const fn kind(name: &'static str, cases: usize, run: fn(&mut Case<'_>) -> Result<()>) -> Kind {
    Kind { name, cases, run }
}

const KINDS: [Kind; 26] = [
    kind("archives", 300, inputs::archive),
    kind("images", 450, inputs::image),
    kind("weights", 500, inputs::weights),
    kind("arrays", 120, inputs::arrays),
    kind("annotations", 450, inputs::annotations),
    kind("folders", 240, inputs::folder),
    kind("results", 200, inputs::results),
    kind("tracks", 150, inputs::tracks),
    kind("settings", 200, inputs::settings),
    kind("lines", 300, inputs::line),
    kind("runs", 250, faults::run),
    kind("streams", 56, faults::streams),
    kind("signals", 60, faults::signals),
    kind("disk", 64, faults::disk),
    kind("memory", 40, faults::memory),
    kind("handles", 24, faults::handles),
    kind("pairs", 12, faults::pairs),
    kind("servers", 42, server::server),
    kind("ranks", 64, ranks::ranks),
    kind("headers", 120, further::headers),
    kind("chunks", 80, further::chunks),
    kind("variables", 100, further::variables),
    kind("cards", 60, further::cards),
    kind("sequences", 60, further::sequences),
    kind("faces", 40, further::faces),
    kind("points", 40, further::points),
];

/// What the cases of a kind found.
struct Row {
    name: &'static str,
    cases: usize,
    found: Vec<Found>,
}

/// The number of a case, and what it found.
type Found = (usize, Fault, String);

/// Attacks the program `ebm` of the repository at `root`, from the folder `dir`, which it makes. Prints the
/// table and what was found; returns how many faults there were.
pub fn run(ebm: &Path, root: &Path, dir: &Path, args: &AttackArgs) -> Result<usize> {
    let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    if let Some(unknown) = args.only.iter().chain(&args.without).find(|name| !known.contains(&name.as_str()))
    {
        bail!("there is no kind {unknown}; there are {}", known.join(", "));
    }
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let base = Base::new(ebm, root, dir, Duration::from_secs(args.seconds))?;
    let mut rows = Vec::new();
    let is_wanted = |kind: &&Kind| {
        let is_in = |names: &[String]| names.iter().any(|name| name == kind.name);
        (args.only.is_empty() || is_in(&args.only)) && !is_in(&args.without)
    };
    for kind in KINDS.iter().filter(is_wanted) {
        if kind.name == "ranks" && ranks::launcher(root).is_none() {
            eprintln!("ranks: left out, as there is no mpiexec; xtask/mpi/setup.sh fetches two");
            continue;
        }
        let start = Instant::now();
        let row = attack(kind, &base, args)?;
        eprintln!(
            "{}: {} cases, {} faults, {:.0} s",
            row.name,
            row.cases,
            row.found.len(),
            start.elapsed().as_secs_f64()
        );
        rows.push(row);
    }
    Ok(print(&rows))
}

/// All cases of a kind, some at a time.
fn attack(kind: &Kind, base: &Base, args: &AttackArgs) -> Result<Row> {
    let numbers: Vec<usize> = match args.case {
        Some(number) => vec![number],
        None => (0..kind.cases.min(args.cases)).collect(),
    };
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Result<Vec<Found>>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(kind, number, base, args.case.is_some());
                    let result = result.with_context(|| format!("{} {number}", kind.name));
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    let mut found = Vec::new();
    for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        found.extend(result?);
    }
    found.sort_by_key(|(number, ..)| *number);
    Ok(Row { name: kind.name, cases: numbers.len(), found })
}

/// One case, whose folder stays if something was found.
fn one(kind: &Kind, number: usize, base: &Base, keep: bool) -> Result<Vec<Found>> {
    let dir = base.dir.join(format!("{}-{number}", kind.name)).join("a/b");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let random = Random::new(kind.name, number);
    let mut case = Case { base, random, number, dir, found: Vec::new() };
    (kind.run)(&mut case)?;
    let Case { found, .. } = case;
    for (fault, detail) in &found {
        eprintln!("{} {number}: {fault:?}: {detail}", kind.name);
    }
    if found.is_empty() && !keep {
        let dir = base.dir.join(format!("{}-{number}", kind.name));
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(found.into_iter().map(|(fault, detail)| (number, fault, detail)).collect())
}

/// The table of docs/reliability.md; how many faults there were.
fn print(rows: &[Row]) -> usize {
    let heads = Fault::ALL.map(|(_, head)| head).join(" | ");
    let mut lines =
        vec![format!("| kind | cases | {heads} |"), format!("|---|--:|{}", "--:|".repeat(Fault::ALL.len()))];
    let of = |row: &Row, fault: Fault| row.found.iter().filter(|(_, found, _)| *found == fault).count();
    let line = |name: &str, cases: usize, count: &dyn Fn(Fault) -> usize| {
        let counts = Fault::ALL.map(|(fault, _)| count(fault).to_string()).join(" | ");
        format!("| {name} | {cases} | {counts} |")
    };
    lines.extend(rows.iter().map(|row| line(row.name, row.cases, &|fault| of(row, fault))));
    let cases = rows.iter().map(|row| row.cases).sum();
    lines.push(line("all", cases, &|fault| rows.iter().map(|row| of(row, fault)).sum()));
    eprintln!("\n{}", lines.join("\n"));
    rows.iter().map(|row| row.found.len()).sum()
}
