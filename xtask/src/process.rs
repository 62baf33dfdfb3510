//! Handing over to another program.

use std::process::Command;

use anyhow::{Context, Result};

/// Lets `command` take this process's place: it owns the terminal, receives the signals, and its end is ours,
/// by exit code or by signal. Returns only where the system cannot replace a process (then the exit code) or
/// where the program could not be started.
pub fn hand_over(command: &mut Command) -> Result<i32> {
    let program = command.get_program().to_owned();
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
