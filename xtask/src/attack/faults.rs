//! Kinds of cases in which the machine, or another process, is at fault, or a run was tampered with.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::base::{STEPS, copy, files};
use super::case::{Case, Fault};
use super::damage;
use super::program::{Program, write};

/// No space or no memory.
const OF_RESOURCES: [i32; 2] = [0, 6];
/// What a run that was tampered with leaves with: sound by chance, other settings, or damaged.
const OF_RUNS: [i32; 4] = [0, 1, 2, 3];

impl Case<'_> {
    /// The training, resumed without limits: it must end with the bytes of the one that nothing stopped.
    fn resumed_is_whole(&mut self, run: &Path) -> Result<()> {
        let mut program = self.ebm_of(self.base.training(run, STEPS));
        program.words.push("--resume".into());
        self.run(&program, &[0])?;
        let whole = &self.base.whole;
        self.must_hold(&run.join("ebm.safetensors"), whole);
        Ok(())
    }
}

/// A run of which one file is damaged, gone, a folder or a link; resumed, it ends with the right bytes or
/// says what is wrong.
pub fn run(case: &mut Case<'_>) -> Result<()> {
    let run = case.path("run");
    copy(&case.base.dir.join("whole"), &run)?;
    let mut found = Vec::new();
    files(&run, &mut found)?;
    let spoilt = case.random.pick(&found).clone();
    let sound = fs::read(&spoilt).context("a file of the run")?;
    fs::remove_file(&spoilt).context("a file of the run")?;
    match case.random.below(8) {
        0 => {}
        1 => fs::create_dir_all(spoilt.join("inner")).context("a folder in its place")?,
        2 => std::os::unix::fs::symlink("/dev/zero", &spoilt).context("a link in its place")?,
        3 => write(&spoilt, &fs::read(case.random.pick(&found)).unwrap_or_default())?,
        4 => write(&spoilt, &damage::text(&mut case.random, &String::from_utf8_lossy(&sound)))?,
        _ => write(&spoilt, &damage::bytes(&mut case.random, &sound))?,
    }
    let mut program = case.ebm_of(case.base.training(&run, STEPS));
    program.words.push("--resume".into());
    let outcome = case.run(&program, &OF_RUNS)?;
    if outcome.code == Some(0) {
        case.must_hold(&run.join("ebm.safetensors"), &case.base.whole);
    }
    Ok(())
}

/// Streams that are closed, full, or that nobody reads.
pub fn streams(case: &mut Case<'_>) -> Result<()> {
    const STREAMS: [&str; 8] = [
        ">&-",
        "2>&-",
        ">&- 2>&-",
        ">/dev/full",
        "2>/dev/full",
        ">/dev/full 2>/dev/full",
        "> >(exec true)",
        "2> >(exec true)",
    ];
    let base = case.base;
    let scene = base.scenes().join("images/000001.jpg");
    let run = case.path("run");
    let trains = case.number / STREAMS.len() == 0;
    let mut program = match case.number / STREAMS.len() {
        0 => case.ebm_of(base.training(&run, STEPS)),
        1 => case.ebm("predict detection {} --detector {}", &[&scene, &base.detector()]),
        2 => case.ebm("data scenes --count 1 --out s", &[]),
        3 => case.ebm("weights convert {} out.safetensors --json", &[&base.detector()]),
        4 => case.ebm("doctor", &[]),
        5 => case.ebm("train branch --help", &[]),
        _ => case.ebm("data unknown", &[]),
    };
    program.streams = STREAMS[case.number % STREAMS.len()];
    case.run(&program, &[0, 2, 6, 141])?;
    if trains {
        case.must_hold(&run.join("ebm.safetensors"), &base.whole);
    }
    Ok(())
}

/// A training that a signal ends at any time goes on to the same bytes.
pub fn signals(case: &mut Case<'_>) -> Result<()> {
    let run = case.path("run");
    let program = case.ebm_of(case.base.training(&run, STEPS));
    let mut running = program.start()?;
    sleep(Duration::from_millis(case.random.below(900) as u64));
    let (name, code) = [("KILL", 137), ("TERM", 143), ("INT", 130), ("HUP", 129)][case.number % 4];
    running.signal(name)?;
    let outcome = running.finish()?;
    case.judge(&program, &outcome, &[0, code]);
    case.resumed_is_whole(&run)
}

/// A disk that is full at some byte of some file.
pub fn disk(case: &mut Case<'_>) -> Result<()> {
    let run = case.path("run");
    let mut program = case.ebm_of(case.base.training(&run, STEPS));
    // In equal ratios up to the largest file.
    program.file_size = Some(3_500_000f64.powf(case.number as f64 / 63.0) as u64);
    case.run(&program, &OF_RESOURCES)?;
    case.resumed_is_whole(&run)
}

/// Less memory than is needed, or just enough.
pub fn memory(case: &mut Case<'_>) -> Result<()> {
    let run = case.path("run");
    let mut program = match case.number % 2 {
        0 => case.ebm_of(case.base.training(&run, STEPS)),
        _ => case.ebm("weights convert {} out.safetensors", &[&case.base.detector()]),
    };
    program.memory = (100 + case.random.below(500) as u64) << 20;
    case.run(&program, &OF_RESOURCES)?;
    case.resumed_is_whole(&run)
}

/// Few open files.
pub fn handles(case: &mut Case<'_>) -> Result<()> {
    let run = case.path("run");
    let mut program = case.ebm_of(case.base.training(&run, STEPS));
    program.open_files = Some(4 + case.number as u64);
    case.run(&program, &[0, 1])?;
    case.resumed_is_whole(&run)
}

/// Two processes with one place for their output: one has it, and what it writes is whole.
pub fn pairs(case: &mut Case<'_>) -> Result<()> {
    let (base, run) = (case.base, case.path("run"));
    let archive = base.root.join("crates/ebm-data/tests/attacks/many.zip");
    let both: [Program; 2] = [0, 1].map(|_| match case.number % 2 {
        0 => case.ebm_of(base.training(&run, STEPS)),
        _ => case.ebm("data unpack {} t", &[&archive]),
    });
    let first = both[0].start()?;
    sleep(Duration::from_millis(case.random.below(300) as u64));
    let second = both[1].run()?;
    let first = first.finish()?;
    for (program, outcome) in both.iter().zip([&first, &second]) {
        case.judge(program, outcome, &[0, 1]);
    }
    if first.code != Some(0) && second.code != Some(0) {
        case.note(Fault::Lost, format!("neither has it: {} {}", first.said, second.said));
    }
    if case.number.is_multiple_of(2) {
        return case.resumed_is_whole(&run);
    }
    let mut found = Vec::new();
    files(&case.path("t"), &mut found)?;
    found.retain(|path| path.file_name().is_some_and(|name| name != ".unpacked.json"));
    if found.len() != 200 {
        case.note(Fault::Lost, format!("{} of 200 files", found.len()));
    }
    Ok(())
}
