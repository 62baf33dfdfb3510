//! Progress on standard error: a bar on a terminal, otherwise a plain line every 30 seconds.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use candle_core::Device;
use ebm_train::{Environment, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

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
    /// Units that were done before it began.
    before: usize,
    done: usize,
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

    /// The same for work that trains: a signal stops a training when its step is saved, and anything else at
    /// once.
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

    /// Ends the stage with these words in the place of its own.
    pub fn end_with(&mut self, text: &str) {
        if let Some(stage) = self.stage.take() {
            stage.bar.finish_and_clear();
        }
        if !self.silent {
            eprintln!("{text}");
        }
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

/// The look of a bar of which `before` units were done before it began.
fn style(before: usize) -> ProgressStyle {
    // indicatif leaves colours out by itself where NO_COLOR is set.
    let template = "{msg:30} {wide_bar:.green} {pos}/{len} {pace}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("pace", move |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        let total = state.len().unwrap_or(0) as usize;
        let (rate, left) = pace(before, state.pos() as usize, total, state.elapsed());
        // A writer of a bar never fails.
        let _ = write!(text, "{rate:.1}/s {left:.0} s left");
    })
}

/// Units a second and the seconds that are left, of a stage of which `before` units were done before it
/// began.
fn pace(before: usize, done: usize, total: usize, elapsed: Duration) -> (f64, f64) {
    let own = done.saturating_sub(before) as f64;
    let seconds = elapsed.as_secs_f64();
    (own / seconds.max(1e-9), seconds / own.max(1.0) * total.saturating_sub(done) as f64)
}

/// What a stage says at its end. One that tells no units but its end did all.
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
        environment::here(&self.device)
    }

    fn begin(&mut self, name: &str, total: usize) {
        let bar = if self.terminal {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            bar.with_style(style(0)).with_message(name.to_owned())
        } else {
            ProgressBar::hidden()
        };
        self.leave_if_asked();
        let now = Instant::now();
        self.stage = Some(Stage {
            name: name.into(),
            total,
            start: now,
            last_line: now,
            before: 0,
            done: 0,
            bar,
            saves: false,
        });
    }

    fn resumed(&mut self, done: usize) {
        let Some(stage) = &mut self.stage else { return };
        stage.before = done;
        stage.done = done;
        stage.bar.set_style(style(done));
        stage.bar.set_position(done as u64);
    }

    fn advance(&mut self, done: usize, note: &str) {
        self.leave_if_asked();
        let Some(stage) = &mut self.stage else { return };
        stage.done = done;
        stage.bar.set_position(done as u64);
        if !note.is_empty() {
            stage.bar.set_message(format!("{} {note}", stage.name));
        }
        if !self.terminal && !self.silent && stage.last_line.elapsed() >= LINE_INTERVAL {
            stage.last_line = Instant::now();
            let (rate, left) = pace(stage.before, done, stage.total, stage.start.elapsed());
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
            eprintln!("{}: {} in {seconds:.1} s", stage.name, amount(stage.before, stage.done, stage.total));
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
        // 4 of the last 24 units in 2 s: two a second, 20 are left for 10 s.
        assert_eq!(pace(76, 80, 100, Duration::from_secs(2)), (2.0, 10.0));
        assert_eq!(pace(0, 50, 100, Duration::from_secs(5)), (10.0, 5.0));
        // Nothing yet: no more than a guess, and no division by zero.
        assert_eq!(pace(96, 96, 100, Duration::from_secs(1)), (0.0, 4.0));
    }

    #[test]
    fn a_stage_says_what_was_done() {
        assert_eq!(amount(0, 96, 100), "96 of 100 done");
        assert_eq!(amount(96, 100, 100), "4 of 100 done");
        assert_eq!([amount(0, 100, 100), amount(0, 0, 3)], ["100 done", "3 done"]);
    }
}
