//! Shows progress on standard error: a bar on a terminal, otherwise a line every 30 seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use candle_core::Device;
use ebm_train::{Environment, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::device::name;
use crate::machine::environment;
use crate::signals::Signals;

const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Display of the stages of a computation.
pub struct Console {
    terminal: bool,
    stage: Option<Stage>,
    /// Signals that were taken over; `None` where signals keep their usual effect.
    signals: Option<Signals>,
    /// Whether nothing is shown, because another process shows the progress.
    silent: bool,
    /// Name of the device that computes.
    device: String,
}

struct Stage {
    name: String,
    total: usize,
    last_line: Instant,
    /// Units that were done before the stage began, in a run that is resumed.
    before: usize,
    /// Progress bar; it counts and keeps the time even when it is hidden.
    bar: ProgressBar,
    /// Whether the stage can save its state when it is stopped. A training asks after every step.
    saves: bool,
}

impl Console {
    /// Returns a display that uses a bar if standard error is a terminal.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            stage: None,
            signals: None,
            silent: false,
            device: "cpu".into(),
        }
    }

    /// Returns a display that reacts to `signals`: a training stops after its step is saved, everything else at once.
    pub fn stopping_at(signals: Signals) -> Self {
        Self { signals: Some(signals), ..Self::new() }
    }

    /// Sets the device, which the records of its runs name.
    pub fn computing_on(self, device: &Device) -> Self {
        Self { device: name(device), ..self }
    }

    /// Turns all output off, for a process whose progress another process shows.
    pub fn silent(self) -> Self {
        Self { terminal: false, silent: true, ..self }
    }

    /// Ends the stage and prints `text` in place of the usual line.
    pub fn end_with(&mut self, text: &str) {
        if let Some(stage) = self.stage.take() {
            stage.bar.finish_and_clear();
        }
        if !self.silent {
            eprintln!("{text}");
        }
    }

    /// Ends the process if a signal has arrived and this stage has no state to save.
    fn leave_if_asked(&self) {
        let saves = self.stage.as_ref().is_some_and(|stage| stage.saves);
        if let Some(signals) = self.signals.as_ref().filter(|signals| signals.arrived() && !saves) {
            eprintln!("interrupted; what was trained before is saved");
            std::process::exit(i32::from(signals.exit_code()));
        }
    }
}

/// Returns the text that a stage prints at its end. A stage that only reported its end has done everything.
fn amount(before: usize, done: usize, total: usize) -> String {
    match done {
        0 => format!("{total} done"),
        done if done < total => format!("{done} of {total} done"),
        _ if before > 0 => format!("{} of {total} done", total.saturating_sub(before)),
        _ => format!("{total} done"),
    }
}

impl Progress for Console {
    fn environment(&self) -> Environment {
        environment(&self.device)
    }

    fn begin(&mut self, name: &str, total: usize) {
        let target = if self.terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template("{msg:30} {wide_bar:.green} {pos}/{len} {per_sec}, {eta} left");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let bar = bar.with_style(style).with_message(name.to_owned());
        self.leave_if_asked();
        let (name, last_line) = (name.into(), Instant::now());
        self.stage = Some(Stage { name, total, last_line, before: 0, bar, saves: false });
    }

    fn resumed(&mut self, done: usize) {
        let Some(stage) = &mut self.stage else { return };
        stage.before = done;
        stage.bar.set_position(done as u64);
        // Work done before the resumption says nothing about the pace.
        stage.bar.tick();
        stage.bar.reset_eta();
    }

    fn advance(&mut self, done: usize, note: &str) {
        self.leave_if_asked();
        let Some(Stage { name, total, last_line, bar, .. }) = &mut self.stage else { return };
        bar.set_position(done as u64);
        if !note.is_empty() {
            bar.set_message(format!("{name} {note}"));
        }
        if !self.terminal && !self.silent && last_line.elapsed() >= LINE_INTERVAL {
            *last_line = Instant::now();
            let (rate, left) = (bar.per_sec(), bar.eta().as_secs_f64());
            eprintln!("{name}: {done}/{total}, {rate:.1}/s, {left:.0} s left {note}");
        }
    }

    fn end(&mut self) {
        let Some(Stage { name, total, before, bar, .. }) = self.stage.take() else { return };
        let (done, seconds) = (bar.position() as usize, bar.elapsed().as_secs_f64());
        bar.finish_and_clear();
        if !self.silent {
            eprintln!("{name}: {} in {seconds:.1} s", amount(before, done, total));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_what_was_done_here() {
        let mut console = Console::new();
        console.begin("steps", 100);
        console.resumed(76);
        std::thread::sleep(Duration::from_millis(20));
        console.advance(78, "");
        // The rate counts two units in 20 ms or more. With the units before the resumption it would be 3900 per second.
        let rate = console.stage.as_ref().unwrap().bar.per_sec();
        assert!(0.0 < rate && rate < 101.0, "{rate}");
    }

    #[test]
    fn a_stage_says_what_was_done() {
        assert_eq!(amount(0, 96, 100), "96 of 100 done");
        assert_eq!(amount(96, 100, 100), "4 of 100 done");
        assert_eq!([amount(0, 100, 100), amount(0, 0, 3)], ["100 done", "3 done"]);
    }
}
