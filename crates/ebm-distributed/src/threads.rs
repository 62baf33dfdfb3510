//! Ranks that are threads of one process: the engine that tests run on.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};

use crate::{Error, Message, Reduce, Result};

/// How long a rank waits for the others before it takes them for lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of several ranks that share memory. Sums are taken in the order of the ranks.
pub struct Threads {
    rank: usize,
    world: usize,
    table: Arc<Table>,
}

/// Where each rank lays down its part of a round, and takes up those of all.
#[derive(Default)]
struct Table {
    round: Mutex<Round>,
    turned: Condvar,
}

#[derive(Default)]
struct Round {
    number: u64,
    parts: Vec<Option<Vec<u8>>>,
    /// Those of the round before.
    all: Arc<Vec<Vec<u8>>>,
    aborted: bool,
}

impl Threads {
    /// The ranks 0 to `world`, one for each thread.
    #[must_use]
    pub fn new(world: usize) -> Vec<Self> {
        let round = Round { parts: vec![None; world], ..Round::default() };
        let table = Arc::new(Table { round: Mutex::new(round), turned: Condvar::new() });
        (0..world).map(|rank| Self { rank, world, table: table.clone() }).collect()
    }

    /// The parts of all ranks, once each has given its own.
    fn gather(&self, part: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>> {
        let lost = |reason: &str| Error::Distributed { reason: reason.to_owned() };
        let mut round = self.table.round.lock().unwrap_or_else(PoisonError::into_inner);
        let number = round.number;
        round.parts[self.rank] = Some(part);
        if round.parts.iter().all(Option::is_some) {
            round.all = Arc::new(round.parts.iter_mut().filter_map(Option::take).collect());
            round.number += 1;
            self.table.turned.notify_all();
        }
        let waits = |round: &mut Round| round.number == number && !round.aborted;
        let (round, waited) = self
            .table
            .turned
            .wait_timeout_while(round, PATIENCE, waits)
            .unwrap_or_else(PoisonError::into_inner);
        match (round.number == number, waited.timed_out()) {
            (false, _) => Ok(round.all.clone()),
            (true, true) => Err(lost("a thread did not come within a minute")),
            (true, false) => Err(lost("another thread has aborted")),
        }
    }
}

impl Reduce for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn exchange(&self, message: Message) -> Result<Vec<Message>> {
        let all = self.gather(message.iter().flat_map(|word| word.to_le_bytes()).collect())?;
        let read = |bytes: &Vec<u8>| {
            let mut message = Message::default();
            for (word, bytes) in message.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            message
        };
        Ok(all.iter().map(read).collect())
    }

    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        let values = vector.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
        let all = self.gather(values.iter().flat_map(|value| value.to_le_bytes()).collect())?;
        let mut sums = vec![0_f64; values.len()];
        for part in all.iter() {
            for (sum, bytes) in sums.iter_mut().zip(part.as_chunks::<8>().0) {
                *sum += f64::from_le_bytes(*bytes);
            }
        }
        Ok(Tensor::new(sums, &Device::Cpu)?.to_dtype(vector.dtype())?.to_device(vector.device())?)
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let all = self.gather(bytes.to_vec())?;
        match all.get(root).filter(|theirs| theirs.len() == bytes.len()) {
            Some(theirs) => bytes.copy_from_slice(theirs),
            None => return Err(Error::Distributed { reason: format!("rank {root} sent another length") }),
        }
        Ok(())
    }

    fn close(&self) {}

    fn abort(&self) {
        self.table.round.lock().unwrap_or_else(PoisonError::into_inner).aborted = true;
        self.table.turned.notify_all();
    }
}
