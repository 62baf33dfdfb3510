//! Engine whose ranks are threads of one process, for tests.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};

use crate::distributed::{Reduce, refuse};
use crate::error::Result;

/// Longest time that a rank waits for another rank.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of several ranks of a process. Sums are taken in the order of the ranks. Dropping a rank tells the others
/// that it is gone.
pub struct Threads {
    rank: usize,
    /// Channels to each rank, including this one.
    senders: Vec<Sender<Arc<Vec<f64>>>>,
    /// Channels from each rank, including this one.
    receivers: Vec<Receiver<Arc<Vec<f64>>>>,
}

impl Threads {
    /// Makes the ranks 0 to `world` − 1, one for each thread.
    pub fn new(world: usize) -> Vec<Self> {
        let rank = |rank| Self { rank, senders: Vec::new(), receivers: Vec::new() };
        let mut ranks: Vec<Self> = (0..world).map(rank).collect();
        for from in 0..world {
            for to in 0..world {
                let (sender, receiver) = channel();
                ranks[from].senders.push(sender);
                ranks[to].receivers.push(receiver);
            }
        }
        ranks
    }
}

impl Reduce for Threads {
    fn rank_and_world(&self) -> (usize, usize) {
        (self.rank, self.senders.len())
    }

    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        let part = Arc::new(vector.to_dtype(DType::F64)?.to_vec1()?);
        for sender in &self.senders {
            // A rank that is gone sends nothing either, which is noticed below.
            let _ = sender.send(part.clone());
        }
        let mut sums = vec![0.0; vector.elem_count()];
        for receiver in &self.receivers {
            let lost = |_| refuse("another thread has aborted, or did not come within a minute");
            let part = receiver.recv_timeout(PATIENCE).or_else(lost)?;
            sums.iter_mut().zip(part.iter()).for_each(|(sum, value)| *sum += value);
        }
        Ok(Tensor::new(sums, &Device::Cpu)?.to_dtype(vector.dtype())?.to_device(vector.device())?)
    }
}
