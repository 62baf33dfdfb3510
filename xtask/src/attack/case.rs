//! One case: what it does to the program, and what is found.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::base::Base;
use super::program::{Outcome, Program, shown, words};
use super::random::Random;

/// The most memory that any input may take, in bytes.
const MOST_MEMORY: u64 = 2 << 30;
/// What docs/reliability.md says of a process that has got no memory.
const NO_MEMORY: i32 = 6;
const PANICKED: i32 = 101;

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A panic.
    Panic,
    /// An end by a signal that nobody sent, or without memory where there was enough.
    Abort,
    /// No end within the time of a case.
    Hang,
    /// More than 2 GiB.
    Memory,
    /// Another exit code than docs/exit_codes.md says, or a failure without a word.
    Exit,
    /// Bytes that are lost, other than they must be, or outside of their place.
    Lost,
}

impl Fault {
    /// All of them, with the heads of their columns.
    pub const ALL: [(Self, &str); 6] = [
        (Self::Panic, "panics"),
        (Self::Abort, "aborts"),
        (Self::Hang, "hangs"),
        (Self::Memory, "above 2 GiB"),
        (Self::Exit, "wrong exits"),
        (Self::Lost, "bytes lost"),
    ];
}

/// A case of a kind.
pub struct Case<'a> {
    /// What is sound.
    pub base: &'a Base,
    /// The case's numbers.
    pub random: Random,
    /// Its number.
    pub number: usize,
    /// A folder of its own.
    pub dir: PathBuf,
    /// What was found, in words.
    pub found: Vec<(Fault, String)>,
}

impl Case<'_> {
    /// A path in the case's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The program with the [`words`] of this line.
    pub fn ebm(&self, line: &str, given: &[&dyn AsRef<OsStr>]) -> Program {
        self.ebm_of(words(line, given))
    }

    /// The program with these arguments.
    pub fn ebm_of(&self, arguments: Vec<OsString>) -> Program {
        self.base.program(arguments, &self.dir)
    }

    /// Runs the program, which must end with one of these codes; how it ended.
    pub fn run(&mut self, program: &Program, codes: &[i32]) -> Result<Outcome> {
        let outcome = program.run()?;
        self.judge(program, &outcome, codes);
        Ok(outcome)
    }

    /// Notes what is wrong with the end of a program that must end with one of these codes.
    pub fn judge(&mut self, program: &Program, outcome: &Outcome, codes: &[i32]) {
        let Outcome { code, timed_out, signalled, peak, said, .. } = outcome;
        let fits = code.is_some_and(|code| codes.contains(&code));
        // Without memory the standard library may panic and abort where a thread starts; what counts is the
        // code.
        let starved = said.contains("memory allocation of");
        let fault = if *timed_out {
            Fault::Hang
        } else if *code == Some(PANICKED)
            || (said.contains("panicked at") && !(fits && *code == Some(NO_MEMORY)))
        {
            Fault::Panic
        } else if *peak > MOST_MEMORY || (*code == Some(NO_MEMORY) && !fits && !starved) {
            Fault::Memory
        } else if (code.is_none() && !signalled) || (starved && !codes.contains(&NO_MEMORY)) {
            Fault::Abort
        } else if !(fits || *signalled && code.is_none()) || self.is_silent(program, outcome) {
            Fault::Exit
        } else {
            return;
        };
        let last: String =
            said.lines().rev().take(4).collect::<Vec<_>>().join(" | ").chars().take(600).collect();
        self.note(fault, format!("{code:?}, {} MiB: {}: {last}", peak >> 20, shown(&program.words)));
    }

    /// Whether it failed without a word, where it could say one.
    fn is_silent(&self, program: &Program, outcome: &Outcome) -> bool {
        let Outcome { code, signalled, said, .. } = outcome;
        *code != Some(0) && said.is_empty() && program.streams.is_empty() && !signalled
    }

    /// Notes a fault.
    pub fn note(&mut self, fault: Fault, detail: String) {
        self.found.push((fault, detail));
    }

    /// Notes that a file has other bytes than it must have.
    pub fn must_hold(&mut self, path: &Path, bytes: &[u8]) {
        match std::fs::read(path) {
            Ok(found) if found == bytes => {}
            Ok(found) => {
                self.note(
                    Fault::Lost,
                    format!(
                        "{}: {} bytes, other than the {} expected",
                        path.display(),
                        found.len(),
                        bytes.len()
                    ),
                );
            }
            Err(error) => self.note(Fault::Lost, format!("{}: {error}", path.display())),
        }
    }
}
