//! Progress on standard error: a bar on a terminal, otherwise a plain line every 30 seconds.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use candle_core::Device;
use ebm_train::{Environment, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::device::name;
use crate::environment;
use crate::signals::Signals;

const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Shows the stages of a computation.
pub struct Console {
    terminal: bool,
    stage: Option<Stage>,
    /// None where signals keep their usual effect.
    signals: Option<Signals>,
    /// Whether another process shows what there is to show.
    silent: bool,
    /// What it is computed on.
    device: String,
}

struct Stage {
    name: String,
    total: usize,
    start: Instant,
    last_line: Instant,
    bar: ProgressBar,
    /// Whether it can be stopped with its state saved: a training asks after every step.
    saves: bool,
}

impl Console {
    /// Looks at standard error once to see whether it is a terminal.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            stage: None,
            signals: None,
            silent: false,
            device: "cpu".into(),
        }
    }

    /// The same for work that trains: a signal stops a training when its step is saved, and anything else at once.
    pub fn stopping_at(signals: Signals) -> Self {
        Self { signals: Some(signals), ..Self::new() }
    }

    /// The same for work on `device`, which the records of its runs name.
    pub fn computing_on(self, device: &Device) -> Self {
        Self { device: name(device), ..self }
    }

    /// The same without a word, for a process whose fellow speaks.
    pub fn silent(self) -> Self {
        Self { terminal: false, silent: true, ..self }
    }

    /// Ends the process where a signal has arrived and this stage has no state that could be saved.
    fn leave_if_asked(&self) {
        let saves = self.stage.as_ref().is_some_and(|stage| stage.saves);
        if let Some(signals) = self.signals.as_ref().filter(|signals| signals.arrived() && !saves) {
            eprintln!("interrupted; what was trained before is saved");
            std::process::exit(i32::from(signals.exit_code()));
        }
    }
}

impl Progress for Console {
    fn environment(&self) -> Environment {
        environment::here(&self.device)
    }

    fn begin(&mut self, name: &str, total: usize) {
        let bar = if self.terminal {
            // indicatif leaves colours out by itself where NO_COLOR is set.
            let template = "{msg:30} {wide_bar:.green} {pos}/{len} {per_sec} {eta} left";
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            bar.with_style(style).with_message(name.to_owned())
        } else {
            ProgressBar::hidden()
        };
        self.leave_if_asked();
        let now = Instant::now();
        self.stage = Some(Stage { name: name.into(), total, start: now, last_line: now, bar, saves: false });
    }

    fn advance(&mut self, done: usize, note: &str) {
        self.leave_if_asked();
        let Some(stage) = &mut self.stage else { return };
        stage.bar.set_position(done as u64);
        if !note.is_empty() {
            stage.bar.set_message(format!("{} {note}", stage.name));
        }
        if !self.terminal && !self.silent && stage.last_line.elapsed() >= LINE_INTERVAL {
            stage.last_line = Instant::now();
            let seconds = stage.start.elapsed().as_secs_f64();
            let left = seconds / done.max(1) as f64 * stage.total.saturating_sub(done) as f64;
            let rate = done as f64 / seconds;
            eprintln!("{}: {done}/{}, {rate:.1}/s, {left:.0} s left {note}", stage.name, stage.total);
        }
    }

    fn end(&mut self) {
        if let Some(stage) = self.stage.take() {
            stage.bar.finish_and_clear();
            if self.silent {
                return;
            }
            let seconds = stage.start.elapsed().as_secs_f64();
            eprintln!("{}: {} done in {seconds:.1} s", stage.name, stage.total);
        }
    }

    fn message(&mut self, text: &str) {
        match &self.stage {
            _ if self.silent => {}
            Some(stage) if self.terminal => stage.bar.suspend(|| eprintln!("{text}")),
            _ => eprintln!("{text}"),
        }
    }

    fn stop_requested(&mut self) -> bool {
        if let Some(stage) = &mut self.stage {
            stage.saves = true;
        }
        self.signals.as_ref().is_some_and(Signals::arrived)
    }
}
