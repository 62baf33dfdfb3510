//! One process of the program under limits, and how it ended.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// What is held of a stream; the rest is read and dropped.
const HELD: u64 = 1 << 20;

/// A command line with the limits that it runs under.
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// The largest address space in bytes.
    pub memory: u64,
    /// The largest file that it may write, in bytes.
    pub file_size: Option<u64>,
    /// The most files that are open at once.
    pub open_files: Option<u64>,
    /// What a shell does to its streams: `2>&-`, `>/dev/full`.
    pub streams: &'static str,
    /// Variables of its environment; without a value they are taken out.
    pub variables: Vec<(&'static str, Option<OsString>)>,
    /// How long it may take.
    pub patience: Duration,
}

/// How a process ended.
pub struct Outcome {
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// Whether it was ended for taking too long.
    pub timed_out: bool,
    /// Whether it, or a process that it started, was sent a signal by the case.
    pub signalled: bool,
    /// The most memory that was seen, in bytes.
    pub peak: u64,
    /// Standard error.
    pub said: String,
}

/// A process that runs.
pub struct Running {
    child: Child,
    streams: [JoinHandle<Vec<u8>>; 2],
    end: Instant,
    signalled: bool,
}

impl Program {
    /// The command under its limits, which `prlimit` sets and a shell's redirections follow.
    fn command(&self) -> Command {
        let mut command = Command::new("prlimit");
        command.arg("--core=0").arg(format!("--as={}", self.memory));
        command.args(self.file_size.map(|bytes| format!("--fsize={bytes}")));
        command.args(self.open_files.map(|count| format!("--nofile={count}")));
        command.args(["bash", "-c", &format!("exec \"$0\" \"$@\" {}", self.streams)]).args(&self.words);
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    /// Starts it.
    pub fn start(&self) -> Result<Running> {
        let mut child = self.command().spawn().context("cannot start prlimit, of util-linux")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let stderr = child.stderr.take().context("no standard error")?;
        let streams = [spawn(move || held(stdout)), spawn(move || held(stderr))];
        Ok(Running { child, streams, end: Instant::now() + self.patience, signalled: false })
    }

    /// Runs it to its end.
    pub fn run(&self) -> Result<Outcome> {
        self.start()?.finish()
    }
}

fn held(mut stream: impl Read) -> Vec<u8> {
    let mut held = Vec::new();
    // A stream that cannot be read has ended.
    let _ = stream.by_ref().take(HELD).read_to_end(&mut held);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    held
}

impl Running {
    /// Sends a signal by its name to the process itself.
    pub fn signal(&mut self, name: &str) -> Result<()> {
        self.signalled = true;
        send(name, &self.child.id().to_string())
    }

    /// That a process of the case's was sent a signal.
    pub fn was_signalled(&mut self) {
        self.signalled = true;
    }

    /// Waits for its end, or ends it with all that it started when its time is over.
    pub fn finish(mut self) -> Result<Outcome> {
        let status_file = format!("/proc/{}/status", self.child.id());
        let (mut peak, mut timed_out) = (0, false);
        let status: ExitStatus = loop {
            peak = peak.max(peak_of(Path::new(&status_file)).unwrap_or(0));
            if let Some(status) = self.child.try_wait().context("cannot wait")? {
                break status;
            }
            if Instant::now() > self.end {
                timed_out = true;
                send("KILL", &format!("-{}", self.child.id()))?;
                break self.child.wait().context("cannot wait")?;
            }
            sleep(Duration::from_millis(3));
        };
        let [_, said] = self.streams.map(|stream| stream.join().unwrap_or_default());
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok(Outcome { code: status.code(), timed_out, signalled: self.signalled, peak, said })
    }
}

/// Sends a signal to a process, or to a group by its number with a minus. One that is gone needs none.
pub fn send(name: &str, to: &str) -> Result<()> {
    // A small system has no program `kill`.
    let kill = ["-c", "kill -s \"$0\" -- \"$1\"", name, to];
    let sent = Command::new("sh").args(kill).stderr(Stdio::null()).status();
    sent.map(drop).context("cannot start sh")
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

/// A command line as a shell takes it.
pub fn shown(words: &[OsString]) -> String {
    let quoted = |word: &OsString| {
        let text = word.to_string_lossy();
        let text: String = text.chars().take(300).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,".contains(c);
        if !text.is_empty() && text.chars().all(plain) { text } else { format!("{text:?}") }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Writes a file and the folders above it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).with_context(place)?;
    std::fs::File::create(path).and_then(|mut file| file.write_all(bytes)).with_context(place)
}
