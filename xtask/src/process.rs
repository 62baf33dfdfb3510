//! Running other programs, and handing over to them.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    forget_package(&mut command);
    command
}

/// Takes away what cargo told this task of its package: build scripts ask for these variables, and run again where others
/// stand in them, with all that is built upon.
fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
}

/// Runs a command, which says itself what is wrong.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

/// What a command says on standard output.
pub fn said(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed ({})", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Lets `command` take this process's place: it owns the terminal, receives the signals, and its end is ours,
/// by exit code or by signal. Returns only where the system cannot replace a process (then the exit code) or
/// where the program could not be started.
pub fn hand_over(command: &mut Command) -> Result<i32> {
    let program = command.get_program().to_owned();
    forget_package(command);
    replace(command).with_context(|| format!("cannot start {}", program.display()))
}

#[cfg(unix)]
fn replace(command: &mut Command) -> std::io::Result<i32> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn replace(command: &mut Command) -> std::io::Result<i32> {
    Ok(command.status()?.code().unwrap_or(1))
}
