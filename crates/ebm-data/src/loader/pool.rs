//! A parallel map whose results come in the order of submission.

use std::collections::VecDeque;
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
    /// Jobs with the place where each one's result goes.
    jobs: Option<Sender<(J, Sender<T>)>>,
    results: VecDeque<Receiver<T>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static, T: Send + 'static> OrderedPool<J, T> {
    /// Starts `threads` threads, each of which lends `work` a memory of its own.
    pub fn new<M: Default>(
        threads: usize,
        work: impl Fn(&mut M, J) -> T + Send + Sync + 'static,
    ) -> Result<Self> {
        let (jobs, queue) = channel::<(J, Sender<T>)>();
        let stop = Arc::<AtomicBool>::default();
        let mut pool =
            Self { jobs: Some(jobs), results: VecDeque::new(), stop, threads: Vec::with_capacity(threads) };
        let (queue, work) = (Arc::new(Mutex::new(queue)), Arc::new(work));
        for index in 0..threads {
            let (queue, work, stop) = (Arc::clone(&queue), Arc::clone(&work), Arc::clone(&pool.stop));
            let body = move || {
                let mut memory = M::default();
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((job, result)) = job else { return };
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    // Nobody may wait for it any more.
                    let _ = result.send(work(&mut memory, job));
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
        let (send, receive) = channel();
        self.results.push_back(receive);
        if let Some(jobs) = &self.jobs {
            // If all threads were gone, `next` would tell.
            let _ = jobs.send((job, send));
        }
    }

    /// Waits for the result of the oldest job not yet taken; `None` if its thread panicked, or none is left.
    pub fn next(&mut self) -> Option<T> {
        self.results.pop_front()?.recv().ok()
    }
}

impl<J, T> Drop for OrderedPool<J, T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // Why a thread panicked it has said itself.
            let _ = thread.join();
        }
    }
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
            assert_eq!(pool.next(), (job != 5).then_some(job * job), "{job}");
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
