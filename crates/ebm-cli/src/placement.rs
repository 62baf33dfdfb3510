//! Assigns the threads that compute to cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread, the one with number `worker` of `workers`, on a core of its own, if there is one thread for each
/// core that the program may use. Otherwise the scheduler often wakes several threads on the same core after a pause,
/// as between two frames, and takes longer to separate them than a network takes to run. If the system refuses, the
/// thread runs where it is put.
pub fn place(worker: usize, workers: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let Some(core) = core_of(worker, workers, &allowed) else { return };
    let mut own = CpuSet::new();
    own.set(core);
    if let Err(error) = sched_setaffinity(None, &own) {
        eprintln!("cannot keep thread {worker} on a core: {error}");
    }
}

/// Returns the core of a worker, or `None` if the numbers of workers and of allowed cores differ.
fn core_of(worker: usize, workers: usize, allowed: &CpuSet) -> Option<usize> {
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    if workers == allowed.count() as usize { cores.nth(worker) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_workers_as_cores_have_one_each() {
        let mut allowed = CpuSet::new();
        [1, 4, 9].into_iter().for_each(|core| allowed.set(core));
        assert_eq!([0, 1, 2].map(|worker| core_of(worker, 3, &allowed)), [Some(1), Some(4), Some(9)]);
        assert_eq!([core_of(0, 2, &allowed), core_of(0, 4, &allowed)], [None, None]);
    }

    #[test]
    fn a_placed_thread_runs_on_one_core() {
        let cores = || sched_getaffinity(None).unwrap().count();
        let all = cores();
        let placed = std::thread::spawn(move || {
            place(0, all as usize);
            cores()
        });
        assert_eq!((placed.join().unwrap(), cores()), (1, all));
    }
}
