//! A parallel map whose results come in the order of submission.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// Threads that apply a function to jobs.
///
/// The caller bounds the memory: it submits a new job only when fewer than its limit are outstanding, since
/// a bounded queue alone would let the others run ahead of a slow job.
pub(super) struct OrderedPool<J, T> {
    jobs: Option<Sender<(u64, J)>>,
    results: Receiver<(u64, Outcome<T>)>,
    /// Results that overtook the one waited for.
    early: BTreeMap<u64, Outcome<T>>,
    submitted: u64,
    taken: u64,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A result, or the message of the panic that prevented it.
type Outcome<T> = std::result::Result<T, String>;

impl<J: Send + 'static, T: Send + 'static> OrderedPool<J, T> {
    /// Starts `threads` threads, each of which lends `work` a memory of its own.
    pub fn new<M: Default>(
        threads: usize,
        work: impl Fn(&mut M, J) -> T + Send + Sync + 'static,
    ) -> Result<Self> {
        let (jobs, queue) = channel::<(u64, J)>();
        let (send, results) = channel();
        let mut pool = Self {
            jobs: Some(jobs),
            results,
            early: BTreeMap::new(),
            submitted: 0,
            taken: 0,
            stop: Arc::default(),
            threads: Vec::with_capacity(threads),
        };
        let (queue, work) = (Arc::new(Mutex::new(queue)), Arc::new(work));
        for index in 0..threads {
            let (queue, work, send, stop) =
                (Arc::clone(&queue), Arc::clone(&work), send.clone(), Arc::clone(&pool.stop));
            let body = move || {
                let mut memory = M::default();
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, job)) = job else { return };
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut memory, job)));
                    let outcome = outcome.map_err(|panic| {
                        memory = M::default();
                        message(&*panic)
                    });
                    if send.send((number, outcome)).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("loader-{index}")).spawn(body);
            pool.threads
                .push(thread.map_err(|error| Error::io("start", Path::new("a loader thread"), error))?);
        }
        Ok(pool)
    }

    /// Queues a job.
    pub fn submit(&mut self, job: J) {
        if let Some(jobs) = &self.jobs {
            // If all threads were gone, `next` would tell.
            let _ = jobs.send((self.submitted, job));
            self.submitted += 1;
        }
    }

    /// Waits for the result of the oldest job not yet taken.
    pub fn next(&mut self) -> Outcome<T> {
        let number = self.taken;
        self.taken += 1;
        loop {
            if let Some(outcome) = self.early.remove(&number) {
                return outcome;
            }
            match self.results.recv() {
                Ok((found, outcome)) => self.early.insert(found, outcome),
                Err(_) => return Err("all threads have ended".to_owned()),
            };
        }
    }
}

impl<J, T> Drop for OrderedPool<J, T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread catches its panics, so that there is nothing to learn from the result.
            let _ = thread.join();
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    #[test]
    fn results_keep_the_order_and_a_panic_its_place() {
        let mut pool = OrderedPool::new(4, |(): &mut (), job: u64| {
            std::thread::sleep(Duration::from_millis(7 * (3 - job % 4)));
            assert!(job != 5, "job five");
            job * job
        })
        .unwrap();
        (0..12).for_each(|job| pool.submit(job));
        for job in 0..12 {
            match pool.next() {
                Ok(square) => assert_eq!(square, job * job),
                Err(detail) => assert!(job == 5 && detail.contains("job five"), "{job}: {detail}"),
            }
        }
    }

    #[test]
    fn dropping_abandons_what_is_queued() {
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        let mut pool = OrderedPool::new(2, move |(): &mut (), ()| {
            std::thread::sleep(Duration::from_millis(20));
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
        (0..50).for_each(|_| pool.submit(()));
        pool.next().unwrap();
        drop(pool);
        let after_drop = done.load(Ordering::SeqCst);
        assert!(after_drop < 25, "{after_drop}");
        // The function, and with it the counter's clone, is gone with the threads.
        assert_eq!(Arc::strong_count(&done), 1);
    }
}
