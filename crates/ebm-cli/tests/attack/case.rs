//! A case of an attack, and its checks of the program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::base::Base;
use super::program::{Outcome, Program, words};
use super::random::Random;

/// The most memory that any input may take, in bytes.
const MOST_MEMORY: u64 = 2 << 30;
/// Exit code of a process without memory, as docs/reliability.md says.
const NO_MEMORY: i32 = 6;
const PANICKED: i32 = 101;

/// A case of a kind.
pub struct Case<'a> {
    /// Sound inputs.
    pub base: &'a Base,
    /// Random numbers of the case.
    pub random: Random,
    /// Number of the case.
    pub number: usize,
    /// A folder of its own.
    pub dir: PathBuf,
    /// Descriptions of the faults that were found.
    pub found: Vec<String>,
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

    /// Runs the program, which must end with one of these codes; its own.
    pub fn run(&mut self, program: &Program, codes: &[i32]) -> Result<Option<i32>> {
        let Outcome { code, timed_out, peak, said } = program.run()?;
        let fits = code.is_some_and(|code| codes.contains(&code));
        // Without memory the standard library may panic and abort where a thread starts; what counts is the
        // code.
        let starved = said.contains("memory allocation of");
        let fault = if timed_out {
            "hang"
        } else if code == Some(PANICKED) || said.contains("panicked at") && !(fits && code == Some(NO_MEMORY))
        {
            "panic"
        } else if peak > MOST_MEMORY || (code == Some(NO_MEMORY) && !fits && !starved) {
            "above 2 GiB"
        } else if code.is_none() || (starved && !codes.contains(&NO_MEMORY)) {
            "abort"
        } else if !fits || (code != Some(0) && said.is_empty()) {
            "wrong exit"
        } else {
            return Ok(code);
        };
        let line: String = program.words.join(OsStr::new(" ")).to_string_lossy().chars().take(1000).collect();
        let last: Vec<&str> = said.lines().rev().take(4).collect();
        self.note(fault, &format!("{code:?}, {} MiB: {line}: {:.600}", peak >> 20, last.join(" | ")));
        Ok(code)
    }

    /// Notes a fault.
    pub fn note(&mut self, fault: &str, detail: &str) {
        self.found.push(format!("{fault}: {detail}"));
    }

    /// Notes that a file has other bytes than it must have.
    pub fn must_hold(&mut self, path: &Path, bytes: &[u8]) {
        let found = std::fs::read(path);
        if !found.as_ref().is_ok_and(|found| found == bytes) {
            let found = found.map(|found| found.len());
            self.note(
                "bytes lost",
                &format!("{}: {found:?} bytes, not the {} expected", path.display(), bytes.len()),
            );
        }
    }
}
