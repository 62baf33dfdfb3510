//! One work, ours and its peers in turn.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use ebm_nn::device::Choice;
use ebm_nn::ops::instruction_sets;
use serde::Serialize;

use super::peer::Python;
use super::pictures::Pictures;
use super::process::Worker;
use super::work::{COMPILE, Peer, Work};

/// Rounds whose times are not counted.
const WARM_UP: usize = 2;

/// Before each run: threads that the process before left waiting in a loop go to sleep.
const PAUSE: Duration = Duration::from_millis(20);

/// How to compare.
pub struct Plan {
    /// Rounds that count.
    pub rounds: usize,
    /// Threads of each process.
    pub threads: usize,
    /// Whether the sizes are tiny.
    pub smoke: bool,
    /// Of both sides.
    pub device: Choice,
    /// Whether PyTorch's compiled form takes part: it takes most of the time of a run.
    pub compile: bool,
}

/// The times of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    pub seconds: Vec<f64>,
    pub peak_mib: Option<u64>,
}

impl Series {
    pub fn minimum(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The middle value, or the mean of the two middle ones.
    pub fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match (sorted.len() % 2, sorted.get(middle)) {
            (1, Some(&value)) => value,
            (_, Some(&value)) => f64::midpoint(sorted[middle - 1], value),
            (_, None) => f64::NAN,
        }
    }
}

/// The times of a peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerSeries {
    pub form: String,
    #[serde(flatten)]
    pub series: Series,
}

/// What was measured of a work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub ours: Series,
    pub peers: Vec<PeerSeries>,
    /// Forms that did not work, each with its reason.
    pub notes: Vec<String>,
}

impl Measured {
    /// The peer with the smallest minimum.
    pub fn best(&self) -> Option<&PeerSeries> {
        self.peers.iter().min_by(|a, b| a.series.minimum().total_cmp(&b.series.minimum()))
    }

    /// Minimum over the best peer's minimum.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours.minimum() / self.best()?.series.minimum())
    }

    /// Median over the same peer's median.
    pub fn ratio_of_medians(&self) -> Option<f64> {
        Some(self.ours.median() / self.best()?.series.median())
    }
}

/// Times `work`: in each round one run of every process, one after another.
///
/// # Errors
/// When a process that is not optional cannot be set up, or any dies.
pub fn measure(work: &Work, python: Option<&Python>, plan: &Plan) -> Result<Measured> {
    let pictures = Pictures::of(work.task)?;
    let start = |form: &str, mut command: Command| {
        command.args(pictures.as_ref().map(Pictures::folder));
        Worker::start(format!("{}, {form}", work.name), command)
    };
    let mut processes = vec![(None, start("ours", ours(work.name, plan)?)?)];
    let mut notes = Vec::new();
    let is_limited = instruction_sets()?.is_limited;
    for peer in work.peers.iter().filter(|peer| plan.compile || peer.form != COMPILE.form) {
        let runs_there = peer.on_any_device || plan.device == Choice::Cpu;
        if !runs_there || (is_limited && !peer.can_be_limited) {
            continue;
        }
        let Some(command) = command(work, peer, python, plan)? else { continue };
        match start(peer.form, command) {
            Ok(worker) => processes.push((Some(peer.form), worker)),
            Err(error) if peer.optional => notes.push(note(peer.form, &error)),
            Err(error) => return Err(error),
        }
    }
    let mut all = vec![Series::default(); processes.len()];
    for round in 0..WARM_UP + plan.rounds {
        for ((_, worker), series) in processes.iter_mut().zip(&mut all) {
            thread::sleep(PAUSE);
            let seconds = worker.run()?;
            if round >= WARM_UP {
                series.seconds.push(seconds);
            }
        }
    }
    let mut measured = Measured { ours: Series::default(), peers: Vec::new(), notes };
    for ((form, worker), mut series) in processes.iter_mut().zip(all) {
        series.peak_mib = worker.peak_mib()?;
        match form {
            None => measured.ours = series,
            Some(form) => measured.peers.push(PeerSeries { form: (*form).to_owned(), series }),
        }
    }
    Ok(measured)
}

/// What starts a peer; nothing where it needs PyTorch and there is none.
fn command(work: &Work, peer: &Peer, python: Option<&Python>, plan: &Plan) -> Result<Option<Command>> {
    match (peer.ours, python) {
        (Some(name), _) => ours(name, plan).map(Some),
        (None, Some(python)) => python.worker(work.task, peer.form, plan.threads, plan.device).map(Some),
        (None, None) => Ok(None),
    }
}

/// What starts our process of the work `name`.
fn ours(name: &str, plan: &Plan) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench-worker", name]).args(plan.smoke.then_some("--smoke"));
    command.args(["--device", &plan.device.to_string()]);
    command.env("RAYON_NUM_THREADS", plan.threads.to_string());
    Ok(command)
}

/// Why a form is missing: the last line of what it said.
fn note(form: &str, error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let last = text.lines().next_back().unwrap_or_default();
    format!("{form} does not work here: {}", last.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(seconds: &[f64]) -> Series {
        Series { seconds: seconds.to_vec(), peak_mib: None }
    }

    #[test]
    fn minimum_and_median() {
        let odd = series(&[3.0, 1.0, 2.0]);
        assert_eq!((odd.minimum(), odd.median()), (1.0, 2.0));
        let even = series(&[4.0, 1.0, 2.0, 8.0]);
        assert_eq!((even.minimum(), even.median()), (1.0, 3.0));
        assert!(series(&[]).median().is_nan());
    }

    #[test]
    fn the_ratio_is_to_the_fastest_peer() {
        let peer =
            |form: &str, seconds: &[f64]| PeerSeries { form: form.to_owned(), series: series(seconds) };
        let peers = vec![peer("eager", &[4.0, 5.0, 6.0]), peer("compile", &[3.0, 10.0, 10.0])];
        let mut measured = Measured { ours: series(&[1.5, 2.0, 9.0]), peers, notes: Vec::new() };
        assert_eq!(measured.best().unwrap().form, "compile");
        assert_eq!((measured.ratio(), measured.ratio_of_medians()), (Some(0.5), Some(0.2)));
        measured.peers.clear();
        assert_eq!((measured.ratio(), measured.ratio_of_medians()), (None, None));
    }

    #[test]
    fn a_note_is_one_line() {
        let error = anyhow::anyhow!("the worker ended; its last words:\n  a\n  no compiler");
        assert_eq!(note("compile", &error), "compile does not work here: no compiler");
    }
}
