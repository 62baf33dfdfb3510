//! Ranks that are threads of one process: the engine that tests run on.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};

use crate::distributed::Reduce;
use crate::distributed::error::{Result, refuse};

/// How long a rank waits for the others before it takes them for lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of several ranks that share memory. Sums are taken in the order of the ranks.
pub struct Threads {
    rank: usize,
    world: usize,
    table: Arc<(Mutex<Round>, Condvar)>,
}

/// Where each rank lays down its part of a sum, and takes up those of all.
#[derive(Default)]
struct Round {
    number: u64,
    parts: Vec<Option<Vec<f64>>>,
    /// Those of the round before.
    all: Arc<Vec<Vec<f64>>>,
    aborted: bool,
}

impl Threads {
    /// The ranks 0 to `world`, one for each thread.
    #[must_use]
    pub fn new(world: usize) -> Vec<Self> {
        let round = Round { parts: vec![None; world], ..Round::default() };
        let table = Arc::new((Mutex::new(round), Condvar::new()));
        (0..world).map(|rank| Self { rank, world, table: table.clone() }).collect()
    }

    /// The parts of all ranks, once each has given its own.
    fn gather(&self, part: Vec<f64>) -> Result<Arc<Vec<Vec<f64>>>> {
        let (round, turned) = &*self.table;
        let mut round = round.lock().unwrap_or_else(PoisonError::into_inner);
        let number = round.number;
        round.parts[self.rank] = Some(part);
        if round.parts.iter().all(Option::is_some) {
            round.all = Arc::new(round.parts.iter_mut().filter_map(Option::take).collect());
            round.number += 1;
            turned.notify_all();
        }
        let waits = |round: &mut Round| round.number == number && !round.aborted;
        let waited = turned.wait_timeout_while(round, PATIENCE, waits);
        let (round, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if round.number == number {
            let reason = "another thread has aborted, or did not come within a minute";
            return refuse(reason);
        }
        Ok(round.all.clone())
    }
}

impl Reduce for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        let all = self.gather(vector.to_dtype(DType::F64)?.to_vec1()?)?;
        let mut sums = vec![0.0; vector.elem_count()];
        for part in all.iter() {
            sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        Ok(Tensor::new(sums, &Device::Cpu)?.to_dtype(vector.dtype())?.to_device(vector.device())?)
    }

    fn abort(&self) {
        self.table.0.lock().unwrap_or_else(PoisonError::into_inner).aborted = true;
        self.table.1.notify_all();
    }
}
