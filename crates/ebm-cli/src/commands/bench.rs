//! `ebm bench`: our networks beside PyTorch, alternating in one run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ebm_bench::{Machine, Plan, Python, Report, Row, Software, Stages, Trained, Work, today};
use ebm_data::files::write_atomic;
use ebm_nn::device::{Choice, Precision, open};

use super::create_dir;
use super::predict_inputs::image_files;
use crate::environment::{CANDLE, EBM, RUSTC};
use crate::model_path::ModelPath;
use crate::parallel::chain;
use crate::schema::document;
use crate::workers::MOST_THREADS;

/// Where the page goes after a run of everything.
const PAGE: &str = "docs/performance.md";

/// Standard output alone.
const NOWHERE: &str = "-";

/// What stands for the stages of --detector in --only.
const STAGES: &str = "stages";

/// Rounds without --rounds, and of a smoke test.
const ROUNDS: usize = 15;
const SMOKE_ROUNDS: usize = 2;

/// How to compare.
#[derive(Args)]
pub struct BenchArgs {
    /// Only these works; the first part of a name selects a group, and `stages` alone means --detector and no
    /// work.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// List the works and stop.
    #[arg(long)]
    list: bool,
    /// Alternating rounds that count [default: 15, with --smoke 2].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Threads of each process [default: all cores].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    threads: Option<u32>,
    /// Leave out PyTorch's compiled form, which takes most of the time of a run.
    #[arg(long)]
    no_compile: bool,
    /// A trained Faster-RCNN of your own: what its stages take, without a peer, in a table of its own.
    #[arg(long, value_name = "WEIGHTS", requires_all = ["head", "images"])]
    detector: Option<ModelPath>,
    /// The confidence that was trained on it, whose f guides suppression and is climbed.
    #[arg(long, value_name = "WEIGHTS", requires = "detector")]
    head: Option<ModelPath>,
    /// The images that it looks at: files, folders of them, patterns.
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "detector")]
    images: Vec<PathBuf>,
    /// What the confidence multiplies on the CPU: full (f32) or bf16.
    #[arg(long, default_value_t = Precision::Full, value_name = "PRECISION", requires = "detector")]
    precision: Precision,
    /// Where both sides compute: cpu, cuda or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value_t = Choice::Cpu)]
    device: Choice,
    /// The Python that has PyTorch.
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// The page to write, with its figures in results/ beside it, `-` for none [default: docs/performance.md,
    /// but `-` with --only, --smoke or a GPU].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object in place of the page.
    #[arg(long)]
    json: bool,
    /// Tiny sizes, to see whether everything runs; the times mean nothing.
    #[arg(long)]
    smoke: bool,
}

/// What a worker process does.
#[derive(Args)]
pub struct WorkerArgs {
    name: String,
    pictures: Option<PathBuf>,
    #[arg(long)]
    smoke: bool,
    #[arg(long, default_value_t = Choice::Cpu)]
    device: Choice,
}

/// Runs one process of the comparison: answers on standard output what it is asked on standard input.
pub fn run_worker(args: WorkerArgs) -> Result<()> {
    let device = open(args.device)?.device;
    let works = ebm_bench::works(args.smoke, !device.is_cpu());
    let Some(work) = works.iter().find(|work| work.name == args.name) else {
        bail!("there is no work {:?}; `ebm bench` starts this command", args.name);
    };
    Precision::default().set();
    let pictures = args.pictures.as_deref();
    ebm_bench::serve(work, &device, pictures, std::io::stdin().lock(), std::io::stdout().lock())
}

/// Runs the comparison.
pub fn run(args: BenchArgs) -> Result<()> {
    let gpu = !open(args.device)?.device.is_cpu();
    // TF32, as PyTorch's side.
    Precision::default().set();
    let trained = trained(&args)?;
    let works = match args.only.as_slice() {
        [only] if only == STAGES && trained.is_some() => Vec::new(),
        [only] if only == STAGES => bail!("--only {STAGES} needs --detector, --head and --images"),
        only => ebm_bench::select(ebm_bench::works(args.smoke, gpu), only)?,
    };
    if args.list {
        list(&works);
        return Ok(());
    }
    let out = destination(&args)?;
    let machine = Machine::here();
    let plan = Plan {
        rounds: args.rounds.map_or(if args.smoke { SMOKE_ROUNDS } else { ROUNDS }, |n| n as usize),
        threads: args.threads.map_or(machine.cores, |n| n as usize),
        smoke: args.smoke,
        device: compute_device(args.device)?,
        compile: !args.no_compile,
    };
    let python = Python::find(&args.python);
    if let Err(error) = &python {
        eprintln!("{}; ours are timed alone", chain(error));
    }
    let python = python.ok();
    eprintln!("the machine's peak …");
    let device = open(plan.device)?.device;
    let peaks = ebm_bench::peaks(&device, plan.device.to_string(), plan.threads, plan.smoke)?;
    let (rows, failures) = measured(&works, python.as_ref(), &plan);
    let stages = trained.map(|trained| -> Result<(Trained, Stages)> {
        eprintln!("the detector's stages …");
        let stages = ebm_bench::stages(&trained, plan.rounds, plan.threads, &device)?;
        Ok((trained, stages))
    });
    let report = Report {
        date: today(),
        command: std::env::args().skip(1).fold("ebm".to_owned(), |command, arg| format!("{command} {arg}")),
        device: plan.device.to_string(),
        machine,
        software: Software { ebm: EBM, candle: CANDLE, rustc: RUSTC },
        peaks,
        peer: python.map(|python| python.versions),
        threads: plan.threads,
        rounds: plan.rounds,
        smoke: plan.smoke,
        rows,
        stages: stages.transpose()?,
    };
    let csv = csv_beside(out.as_deref().unwrap_or(Path::new(PAGE)));
    let page = report.page(&csv)?;
    if args.json {
        println!("{:#}", document("bench", serde_json::to_value(&report)?));
    } else {
        print!("{page}");
    }
    if !failures.is_empty() {
        bail!("{} could not be measured, see above; no file is written", failures.join(", "));
    }
    if let Some(out) = out {
        let folder = out.parent().unwrap_or(Path::new(""));
        let stages = folder.join(Report::stages_csv_name(&csv));
        let csv = folder.join(csv);
        create_dir(csv.parent().unwrap_or(Path::new(".")))?;
        if !report.rows.is_empty() {
            write_atomic(&csv, &report.csv()?)?;
        }
        if let Some(figures) = report.stages_csv()? {
            write_atomic(&stages, &figures)?;
        }
        write_atomic(&out, page.as_bytes())?;
        eprintln!("written to {}, with its figures in {}", out.display(), csv.display());
    }
    Ok(())
}

/// The detector of the user's own, if one is given.
fn trained(args: &BenchArgs) -> Result<Option<Trained>> {
    let (Some(detector), Some(head)) = (&args.detector, &args.head) else { return Ok(None) };
    let images = image_files(&args.images)?;
    let (detector, head) = (detector.file()?, head.file()?);
    Ok(Some(Trained { detector, head, images, precision: args.precision }))
}

/// Prints names and titles.
fn list(works: &[Work]) {
    let width = works.iter().map(|work| work.name.len()).max().unwrap_or(0);
    for work in works {
        println!("{:width$}  {}", work.name, work.title);
    }
}

/// Where the figures of a page go, from the page's folder.
fn csv_beside(page: &Path) -> String {
    format!("results/{}.csv", page.file_stem().unwrap_or_default().display())
}

/// The device by its number, known to be there before an hour of measuring.
fn compute_device(choice: Choice) -> Result<Choice> {
    let found = match open(choice)?.device.location() {
        candle_core::DeviceLocation::Cuda { gpu_id } => Choice::Cuda(gpu_id),
        _ => Choice::Cpu,
    };
    Ok(found)
}

fn row(work: &Work, python: Option<&Python>, plan: &Plan) -> Result<Row> {
    Ok(Row { work: *work, cost: ebm_bench::cost(work)?, measured: ebm_bench::measure(work, python, plan)? })
}

/// The rows of the works, and the names of those that failed, which is said at once.
fn measured(works: &[Work], python: Option<&Python>, plan: &Plan) -> (Vec<Row>, Vec<&'static str>) {
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for (i, work) in works.iter().enumerate() {
        eprintln!("{}/{} {} …", i + 1, works.len(), work.name);
        match row(work, python, plan) {
            Ok(row) => {
                row.measured.notes.iter().for_each(|note| eprintln!("  {note}"));
                rows.push(row);
            }
            Err(error) => {
                eprintln!("error: {}", chain(&error));
                failures.push(work.name);
            }
        }
    }
    (rows, failures)
}

/// The file to write, if any. A part of the table or a smoke test goes into a file only where one is named.
fn destination(args: &BenchArgs) -> Result<Option<PathBuf>> {
    let whole = args.only.is_empty() && !args.smoke && args.device == Choice::Cpu;
    let default = if whole { PAGE } else { NOWHERE };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(default));
    if out == Path::new(NOWHERE) {
        return Ok(None);
    }
    let folder = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Known before an hour of measuring.
    let metadata = folder.metadata().ok().filter(std::fs::Metadata::is_dir);
    metadata
        .map(|_| Some(out.clone()))
        .with_context(|| format!("there is no folder {}; choose another place with --out", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(args: &[&str]) -> Result<BenchArgs, clap::Error> {
        Cli::try_parse_from(std::iter::once("ebm").chain(args.iter().copied())).map(|cli| cli.bench)
    }

    #[test]
    fn arguments_are_read() {
        let args =
            parse(&["--only", "conv", "head-100", "--rounds", "3", "--threads", "2", "--json"]).unwrap();
        assert_eq!(args.only, ["conv", "head-100"]);
        assert_eq!((args.rounds, args.threads, args.json, args.smoke), (Some(3), Some(2), true, false));
        assert_eq!(args.python, Path::new("python3"));
        for bad in [["--rounds", "0"], ["--threads", "0"], ["--rounds", "-1"], ["--rounds", "many"]] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_whole_run_has_a_file_by_default() {
        let out = |args: &[&str]| destination(&parse(args).unwrap());
        for part in [&["--only", "conv"][..], &["--smoke"], &["--out", "-"], &["--device", "cuda"]] {
            assert_eq!(out(part).unwrap(), None, "{part:?}");
        }
        assert_eq!(out(&["--smoke", "--out", "x.md"]).unwrap(), Some(PathBuf::from("x.md")));
        let error = out(&["--out", "no/such/x.md"]).unwrap_err().to_string();
        assert!(error.contains("no/such") && error.contains("--out"), "{error}");
    }
}
