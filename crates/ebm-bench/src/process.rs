//! A worker as its parent sees it: a child process that answers lines.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

/// How long an answer may take: compiling a large network is the slowest.
const PATIENCE: Duration = Duration::from_secs(600);

/// Lines of a dead worker's standard error that are shown.
const TAIL: usize = 15;

/// A running worker; it is ended with the value.
pub struct Worker {
    label: String,
    child: Child,
    /// Both are there until the worker is found dead.
    requests: Option<ChildStdin>,
    errors: Option<JoinHandle<VecDeque<String>>>,
    answers: Receiver<String>,
}

impl Worker {
    /// Starts `command` and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it cannot be started, or ends or keeps silent before.
    pub fn start(label: String, mut command: Command) -> Result<Self> {
        let mut child =
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .with_context(|| format!("cannot start {label}: {}", command.get_program().display()))?;
        let (send, answers) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            // Ends with the pipe.
            thread::spawn(move || lines(stdout).try_for_each(|line| send.send(line)));
        }
        let errors = child.stderr.take().map(|stderr| thread::spawn(move || tail(stderr)));
        let mut worker = Self { label, requests: child.stdin.take(), child, errors, answers };
        let ready = worker.answer()?;
        if ready != "ready" {
            bail!("{} said {ready:?} where \"ready\" was expected", worker.label);
        }
        Ok(worker)
    }

    /// Does the work once: seconds.
    ///
    /// # Errors
    /// When the worker dies or keeps silent, or its answer is not a positive number.
    pub fn run(&mut self) -> Result<f64> {
        let answer = self.ask("run")?;
        let seconds = answer.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
        seconds.ok_or_else(|| anyhow!("{} said {answer:?} where seconds were expected", self.label))
    }

    /// The worker's largest resident size in MiB, where its system tells it.
    ///
    /// # Errors
    /// When the worker dies or keeps silent.
    pub fn peak_mib(&mut self) -> Result<Option<u64>> {
        Ok(self.ask("peak")?.parse().ok())
    }

    fn ask(&mut self, request: &str) -> Result<String> {
        if let Some(requests) = &mut self.requests {
            // A worker that is gone is reported where its answer is missing.
            let _ = writeln!(requests, "{request}");
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                bail!("{} has not answered for {} s", self.label, PATIENCE.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.death()),
        }
    }

    /// The error of a worker that closed its output.
    fn death(&mut self) -> anyhow::Error {
        self.requests = None;
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let tail = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let tail: Vec<String> = tail.into_iter().map(|line| format!("\n  {line}")).collect();
        anyhow!("{} ended ({status}); its last words:{}", self.label, tail.concat())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input would end it as well; a worker that hangs would not notice.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of text as far as they can be read.
fn lines(pipe: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(pipe)
        .split(b'\n')
        .map_while(Result::ok)
        .map(|line| String::from_utf8_lossy(&line).into_owned())
}

fn tail(stderr: impl Read) -> VecDeque<String> {
    let mut last = VecDeque::new();
    for line in lines(stderr).filter(|line| !line.trim().is_empty()) {
        last.push_back(line);
        if last.len() > TAIL {
            last.pop_front();
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let text: String = (0..100).map(|i| format!("{i}\n\n")).collect();
        let tail = tail(text.as_bytes());
        assert_eq!(
            (tail.len(), tail.front().unwrap().as_str(), tail.back().unwrap().as_str()),
            (15, "85", "99")
        );
    }

    #[cfg(unix)]
    mod unix {
        use super::*;

        fn shell(script: &str) -> Result<Worker> {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Worker::start("the shell".to_owned(), command)
        }

        #[test]
        fn a_worker_answers() {
            let mut worker =
                shell("echo ready; read a; echo 0.25; read a; echo 7; read a; echo unknown; read a").unwrap();
            assert!((worker.run().unwrap() - 0.25).abs() < 1e-12);
            assert_eq!(worker.peak_mib().unwrap(), Some(7));
            assert_eq!(worker.peak_mib().unwrap(), None);
        }

        #[test]
        fn a_dead_worker_is_quoted() {
            for script in
                ["echo no such thing >&2; exit 3", "echo ready; read a; echo no such thing >&2; exit 3"]
            {
                let error = shell(script).and_then(|mut worker| worker.run()).unwrap_err().to_string();
                assert!(
                    ["the shell", "3", "no such thing"].iter().all(|part| error.contains(part)),
                    "{error}"
                );
            }
        }

        #[test]
        fn an_answer_out_of_place_is_refused() {
            for script in ["echo hello", "echo ready; read a; echo nan", "echo ready; read a; echo -1"] {
                let error = shell(script).and_then(|mut worker| worker.run()).unwrap_err().to_string();
                assert!(error.contains("expected"), "{error}");
            }
        }
    }
}
