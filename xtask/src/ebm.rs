//! Builds `ebm` and runs it in place of this process.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Builds `ebm` and replaces this process by `ebm <command> <arguments>`, run from `root`.
pub fn run(root: &Path, command: &[&str], arguments: &[OsString]) -> Result<i32> {
    let executable = build(root)?;
    replace_process(Command::new(executable).args(command).args(arguments).current_dir(root))
}

/// Builds `ebm` in release mode and returns the executable's path. Cargo's messages go to stderr.
pub fn build(root: &Path) -> Result<PathBuf> {
    let mut cargo = cargo();
    let program = cargo.get_program().to_owned();
    let mut child = cargo
        .args(["build", "--release", "--package", "ebm-cli", "--bin", "ebm"])
        .args(cuda_features())
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}; is the Rust toolchain installed?", program.display()))?;
    let stdout = child.stdout.take().context("cargo has no standard output")?;
    let mut executable = None;
    for line in BufReader::new(stdout).lines() {
        executable = executable_in(&line.context("cannot read cargo's messages")?).or(executable);
    }
    let status = child.wait().context("cannot wait for cargo")?;
    ensure!(
        status.success(),
        "ebm was not built ({status}): mend what cargo reports above, then repeat the task"
    );
    match executable {
        Some(path) => Ok(path),
        None => bail!("cargo built ebm-cli but named no executable `ebm`: has its [[bin]] been renamed?"),
    }
}

/// Returns the arguments that turn CUDA on, and says so, if there are a GPU's driver and nvcc.
fn cuda_features() -> &'static [&'static str] {
    let has_driver = Path::new("/proc/driver/nvidia/version").exists();
    let toolkit = std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = toolkit.into_iter().chain(std::env::split_paths(&path));
    if has_driver && folders.any(|folder| folder.join("nvcc").is_file()) {
        eprintln!("there are a GPU and nvcc: building with CUDA");
        return &["--features", "cuda"];
    }
    &[]
}

/// Returns the path of the `ebm` executable if this line of cargo's JSON messages announces it.
fn executable_in(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = Path::new(message.get("executable")?.as_str()?);
    (path.file_stem() == Some(OsStr::new("ebm"))).then(|| path.to_owned())
}

/// Returns a command of the cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    forget_package(&mut command);
    command
}

/// Removes the variables in which cargo describes this task's package. Build scripts that read them would otherwise run
/// again, and everything that depends on them would be rebuilt.
fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
}

/// Replaces this process by `command`, which then owns the terminal, the signals and the exit code. Returns the exit
/// code where the system cannot replace a process, and an error if the program could not be started.
pub fn replace_process(command: &mut Command) -> Result<i32> {
    let program = command.get_program().to_owned();
    forget_package(command);
    exec(command).with_context(|| format!("cannot start {}", program.display()))
}

#[cfg(unix)]
fn exec(command: &mut Command) -> std::io::Result<i32> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn exec(command: &mut Command) -> std::io::Result<i32> {
    Ok(command.status()?.code().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_read_from_its_artifact() {
        let found = executable_in(
            r#"{"reason":"compiler-artifact","executable":"/a \"b\"/release/ebm","fresh":true}"#,
        );
        assert_eq!(found, Some(PathBuf::from("/a \"b\"/release/ebm")));
    }

    #[test]
    fn other_messages_name_no_executable() {
        let others = [
            r#"{"reason":"compiler-artifact","executable":"/t/release/build-script-build"}"#,
            r#"{"reason":"compiler-artifact","executable":null}"#,
            r#"{"reason":"build-finished","success":true}"#,
            "warning: plain text that a wrapper printed",
        ];
        for other in others {
            assert_eq!(executable_in(other), None, "{other}");
        }
    }
}
