//! Starting several processes with the installed MPI.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{needs, program, signal, target};

/// Time limit, longer than any test takes on a busy machine. It detects processes that wait for each other
/// forever.
const LIMIT: Duration = Duration::from_secs(120);

/// Remedy if there is no MPI.
pub const REMEDY: &str = "run xtask/mpi/setup.sh, which fetches two";

/// Returns each `mpiexec` to test with: the one that `EBM_MPIEXEC` names, or those that `xtask/mpi/setup.sh` has put
/// into `target/mpi`, or the system's.
pub fn found() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("EBM_MPIEXEC") {
        return vec![named.into()];
    }
    let mpi = target().join("mpi");
    let ours = ["openmpi", "mpich"].map(|name| mpi.join(name).join("bin/mpiexec"));
    let ours: Vec<PathBuf> = ours.into_iter().filter(|path| path.exists()).collect();
    if ours.is_empty() { program(&["mpiexec"]).into_iter().collect() } else { ours }
}

/// Returns the launchers that are [`found`], for a test that needs at least one.
///
/// # Panics
///
/// If there is none and `EBM_REQUIRE` names `mpi`.
pub fn launchers() -> Vec<PathBuf> {
    let found = Some(found()).filter(|found| !found.is_empty());
    needs("mpi", "mpiexec", REMEDY, found).unwrap_or_default()
}

/// Returns a command of `mpiexec`, to which the caller adds the program to start.
pub fn mpiexec(path: &Path) -> Command {
    let mut command = Command::new(path);
    // With several installations, the library must belong to this launcher.
    let home = path.parent().and_then(Path::parent);
    if let Some(home) = home.filter(|home| home.join("lib/libmpi.so").exists()) {
        command.env("MPI_HOME", home);
    }
    // Containers run as root; a machine may have one core; results must not wait for a core that spins.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
        command.env(name, "1").env(format!("{name}_CONFIRM"), "1");
    }
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_mpi_yield_when_idle", "1");
    command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    command.env("RAYON_NUM_THREADS", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
///
/// # Panics
///
/// If it does not start, or does not end within two minutes.
pub fn finish(mut command: Command) -> Output {
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let id = child.id();
    let start = Instant::now();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(LIMIT) {
        Ok(output) => output.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        Err(_) => {
            let killed = signal(id, "KILL");
            panic!("{command:?} hangs, {:?}; killed: {killed}", start.elapsed());
        }
    }
}

/// Returns stdout and stderr as text.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
