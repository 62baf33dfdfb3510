//! How many clients are connected at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::AbortHandle;

/// The open connections, oldest first. Slow clients cannot keep others out: where there are too many, the one ends that
/// has been open longest without a request at work.
pub struct Connections {
    most: usize,
    open: VecDeque<Connection>,
}

struct Connection {
    task: AbortHandle,
    at_work: AtWork,
}

/// How many requests of a connection are being answered.
#[derive(Clone, Default)]
pub struct AtWork(Arc<AtomicUsize>);

/// Counts a request until it is dropped.
pub struct Working(AtWork);

impl AtWork {
    /// Counts a request.
    pub fn begin(&self) -> Working {
        self.0.fetch_add(1, Ordering::Relaxed);
        Working(self.clone())
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self { most, open: VecDeque::new() }
    }

    /// Ends one where there are as many as may be. False where all are at work: then there is no place.
    pub fn make_room(&mut self) -> bool {
        self.open.retain(|connection| !connection.task.is_finished());
        if self.open.len() < self.most {
            return true;
        }
        let idle = self.open.iter().position(|connection| connection.at_work.is_idle());
        let ended = idle.and_then(|place| self.open.remove(place));
        ended.map(|connection| connection.task.abort()).is_some()
    }

    /// Takes a new one in.
    pub fn add(&mut self, task: AbortHandle, at_work: AtWork) {
        self.open.push_back(Connection { task, at_work });
    }
}
