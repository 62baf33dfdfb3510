//! What a run tells whoever watches it.

use crate::trainer::StepReport;
use std::path::Path;

/// Something that happened in a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Training begins.
    Started {
        /// The next step to run.
        step: usize,
        /// The end of the steps, exclusive.
        end: usize,
        /// The checkpoint that the run goes on from, if any.
        resumed_from: Option<&'a Path>,
    },
    /// Something that the user should know and that does not stop the run.
    Warning {
        /// A sentence that names the place.
        message: &'a str,
    },
    /// A step is over.
    Step {
        /// The step, from 0.
        step: usize,
        /// What it reported.
        report: &'a StepReport,
        /// Whether its update was skipped because it was not finite.
        skipped: bool,
    },
    /// A checkpoint is committed.
    Checkpointed {
        /// The number of completed steps.
        step: usize,
        /// Its directory.
        path: &'a Path,
    },
    /// Training is over.
    Finished {
        /// The number of completed steps.
        step: usize,
        /// Whether it was stopped before the end.
        stopped: bool,
    },
}

/// Watches a run: shows its progress, collects it, or ignores it.
pub trait Observer {
    /// Called as events happen, on the training thread.
    fn event(&mut self, event: Event<'_>);

    /// Asked after every step. Where true, for example after a signal, the run commits a checkpoint and
    /// ends.
    fn stop_requested(&mut self) -> bool {
        false
    }
}

/// Ignores everything.
impl Observer for () {
    fn event(&mut self, _event: Event<'_>) {}
}
