//! The program as processes under limits, on damaged inputs and without memory. A case depends on its kind and number
//! alone. `cargo test` tries some of every kind, `cargo xtask attack` all.
#![allow(clippy::print_stderr, reason = "what was found is this test's report")]

mod base;
mod case;
mod damage;
mod kinds;
mod program;
mod random;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Parser;

use base::Base;
use case::Case;
use random::Random;

/// Arguments of `cargo xtask attack`.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask attack")]
struct AttackArgs {
    /// Largest number of cases of each kind.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    cases: usize,
    /// Only these kinds.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    only: Vec<String>,
    /// Only the case of this number, whose folder is kept.
    #[arg(long, value_name = "NUMBER")]
    case: Option<usize>,
    /// The program; by default the one that was built for tests.
    #[arg(long, value_name = "PATH", default_value = env!("CARGO_BIN_EXE_ebm"))]
    ebm: PathBuf,
    /// Seconds that a process may take.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

/// A kind of cases.
struct Kind {
    name: &'static str,
    /// Number of cases.
    cases: usize,
    /// Function that runs a case.
    run: fn(&mut Case<'_>) -> Result<()>,
}

const fn kind(name: &'static str, cases: usize, run: fn(&mut Case<'_>) -> Result<()>) -> Kind {
    Kind { name, cases, run }
}

const KINDS: [Kind; 6] = [
    kind("weights", 500, kinds::weights),
    kind("folders", 240, kinds::folder),
    kind("settings", 200, kinds::settings),
    kind("memory", 40, kinds::memory),
    kind("headers", 120, kinds::headers),
    kind("chunks", 80, kinds::chunks),
];

/// Variable with the arguments of `cargo xtask attack`, one in each line.
const ARGUMENTS: &str = "EBM_ATTACK";

#[test]
fn cases_of_every_kind_find_nothing() {
    if ebm_testing::system::prlimit().is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let here = tempfile::tempdir().unwrap();
    let (arguments, dir) = match std::env::var(ARGUMENTS) {
        Ok(given) => (given, root.join("target/attack")),
        Err(_) => ("--cases\n5\n--seconds\n120".to_owned(), here.path().join("attack")),
    };
    let args = AttackArgs::parse_from(std::iter::once("attack").chain(arguments.lines()));
    assert_eq!(run(&root, &dir, &args).unwrap(), 0);
}

/// Attacks the program from the folder `dir`, which it makes. Says what was found; returns how many faults there were.
fn run(root: &Path, dir: &Path, args: &AttackArgs) -> Result<usize> {
    let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    if let Some(unknown) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no kind {unknown}; there are {}", known.join(", "));
    }
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let base = Base::new(&root.join(&args.ebm), root, dir, Duration::from_secs(args.seconds))?;
    let mut faults = 0;
    let is_wanted = |kind: &&Kind| args.only.is_empty() || args.only.iter().any(|name| name == kind.name);
    for kind in KINDS.iter().filter(is_wanted) {
        let start = Instant::now();
        let found = attack(kind, &base, args)?;
        eprintln!("{}: {found} faults, {:.0} s", kind.name, start.elapsed().as_secs_f64());
        faults += found;
    }
    Ok(faults)
}

/// All cases of a kind, two at a time; how many faults they found.
fn attack(kind: &Kind, base: &Base, args: &AttackArgs) -> Result<usize> {
    let numbers: Vec<usize> = match args.case {
        Some(number) => vec![number],
        None => (0..kind.cases.min(args.cases)).collect(),
    };
    let next = AtomicUsize::new(0);
    let work = || -> Result<usize> {
        let mut faults = 0;
        while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = one(kind, number, base, args.case.is_some());
            faults += found.with_context(|| format!("{} {number}", kind.name))?;
        }
        Ok(faults)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let found = work()?;
        Ok(found + other.join().map_err(|_| anyhow!("a case of {} panicked", kind.name))??)
    })
}

/// One case, whose folder stays if something was found.
fn one(kind: &Kind, number: usize, base: &Base, keep: bool) -> Result<usize> {
    let folder = base.dir.join(format!("{}-{number}", kind.name));
    let dir = folder.join("a/b");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut case = Case { base, random: Random::new(kind.name, number), number, dir, found: Vec::new() };
    (kind.run)(&mut case)?;
    case.found.iter().for_each(|fault| eprintln!("{} {number}: {fault}", kind.name));
    if case.found.is_empty() && !keep {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(case.found.len())
}
