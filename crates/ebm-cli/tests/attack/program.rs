//! One process of the program under limits, and how it ended.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Number of bytes of standard error that are kept; the rest is read and dropped.
const HELD: u64 = 1 << 20;

/// A command line with the limits that it runs under.
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Folder in which the program runs.
    pub directory: PathBuf,
    /// The largest address space in bytes.
    pub memory: u64,
    /// Longest time that the program may take.
    pub patience: Duration,
}

/// Result of a process.
pub struct Outcome {
    /// Exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Whether the process was ended because it took too long.
    pub timed_out: bool,
    /// Largest memory that was seen, in bytes.
    pub peak: u64,
    /// Standard error.
    pub said: String,
}

impl Program {
    /// Runs it to its end, or ends it with all that it started when its time is over.
    pub fn run(&self) -> Result<Outcome> {
        let end = Instant::now() + self.patience;
        let mut command = Command::new("prlimit");
        command.arg("--core=0").arg(format!("--as={}", self.memory)).args(&self.words);
        command.current_dir(&self.directory).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start prlimit, of util-linux")?;
        let stderr = child.stderr.take().context("no standard error")?;
        let said = spawn(move || held(stderr));
        let status_file = format!("/proc/{}/status", child.id());
        let (mut peak, mut timed_out) = (0, false);
        let status = loop {
            peak = peak.max(peak_of(Path::new(&status_file)).unwrap_or(0));
            if let Some(status) = child.try_wait().context("cannot wait")? {
                break status;
            }
            if Instant::now() > end {
                timed_out = true;
                // The group; a small system has no program `kill`.
                let kill = ["-c", "kill -s KILL -- \"$0\"", &format!("-{}", child.id())];
                Command::new("sh").args(kill).status().context("cannot start sh")?;
                break child.wait().context("cannot wait")?;
            }
            sleep(Duration::from_millis(3));
        };
        let said = String::from_utf8_lossy(&said.join().unwrap_or_default()).into_owned();
        Ok(Outcome { code: status.code(), timed_out, peak, said })
    }
}

fn held(mut stream: ChildStderr) -> Vec<u8> {
    let mut held = Vec::new();
    // A stream that cannot be read has ended.
    let _ = stream.by_ref().take(HELD).read_to_end(&mut held);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    held
}

/// The most memory that a process has had.
fn peak_of(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The words of a command line, in which each `{}` is the next of those given.
pub fn words(line: &str, given: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    let mut given = given.iter();
    let mut next = || given.next().map(|word| word.as_ref().to_owned()).unwrap_or_default();
    line.split(' ').map(|word| if word == "{}" { next() } else { word.into() }).collect()
}

/// Writes a file and the folders above it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).with_context(place)?;
    std::fs::File::create(path).and_then(|mut file| file.write_all(bytes)).with_context(place)
}
