//! Collective operations of the processes of a training, over any engine.

use std::cell::Cell;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use candle_core::{Device, Tensor};
use ebm_base::Key;

use crate::distributed::refuse;
use crate::error::{Error, Result};

/// Largest number of elements in one message: 16 MiB of f32. The many small tensors of a gradient share few messages.
const BUCKET: usize = if cfg!(test) { 1 << 12 } else { 1 << 22 };

/// Communication between the ranks 0, 1, … of a training. All ranks call each method, in the same order;
/// [`Group`] ensures this.
pub trait Reduce {
    /// Returns the number of this rank and the number of ranks.
    fn rank_and_world(&self) -> (usize, usize);

    /// Returns the sum over the ranks of `vector (N)`, contiguous, `f32` or `f64`, on its device. It has the same
    /// bytes on every rank.
    ///
    /// # Errors
    /// [`Error::Distributed`](crate::Error::Distributed).
    fn sum(&self, vector: &Tensor) -> Result<Tensor>;

    /// Leaves the group; all ranks do so.
    fn close(&self) {}

    /// Aborts the other ranks, which may be waiting for this rank, as far as the engine can.
    fn abort(&self) {}
}

/// Group of processes that train together. Clones are the same group.
///
/// All ranks call every method in the same order. Before each operation the ranks tell each other which one comes
/// next. A rank that failed says so there ([`fail`](Self::fail)), and all others get [`Error::Rank`] with its
/// number and reason from their own call. So no rank waits for one that has given up, and none mistakes one
/// message for another.
///
/// A group that is dropped before [`finish`](Self::finish) or [`fail`](Self::fail), by a panic for example,
/// aborts the others.
#[derive(Clone)]
pub struct Group(Option<Rc<Members>>);

struct Members {
    rank: usize,
    world: usize,
    engine: Box<dyn Reduce>,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The group is active.
    Open,
    /// Every rank knows that the group has ended.
    Over,
    /// The engine failed, so the state of the other ranks is unknown.
    Broken,
}

/// Next operation of a rank, and an amount.
type Message = [u64; 2];

const SHARE: u64 = 1;
const ANY: u64 = 2;
const FINISH: u64 = 3;
const FAIL: u64 = 4;
/// First code of a mean; the code depends on types and shapes of the tensors.
const MEAN: u64 = 1 << 63;

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank(), self.world())
    }
}

impl Group {
    /// Makes a group of one process, which neither sends nor copies.
    pub fn alone() -> Self {
        Self(None)
    }

    /// Makes a group of the ranks of `engine`. One rank becomes [`alone`](Self::alone).
    pub fn new(engine: Box<dyn Reduce>) -> Self {
        let (rank, world) = engine.rank_and_world();
        if world < 2 {
            engine.close();
            return Self::alone();
        }
        Self(Some(Rc::new(Members { rank, world, engine, state: Cell::new(State::Open) })))
    }

    /// Returns the number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |members| members.rank)
    }

    /// Returns the number of processes.
    pub fn world(&self) -> usize {
        self.0.as_ref().map_or(1, |members| members.world)
    }

    /// Returns whether this is rank 0, the only one that writes files and reports.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Returns the key of this rank's draws: `key` itself for rank 0, `"rank" → r` below it for the others.
    pub fn key(&self, key: Key) -> Key {
        if self.is_first() { key } else { key.split("rank").index(self.rank() as u64) }
    }

    /// Returns the images that this rank takes from a batch of `batch_size`. The shares are consecutive and of
    /// equal size.
    ///
    /// # Errors
    /// [`Error::Distributed`] if the batch does not divide evenly.
    pub fn share_of(&self, batch_size: usize) -> Result<std::ops::Range<usize>> {
        let (rank, world) = (self.rank(), self.world());
        let share = batch_size / world;
        if share * world != batch_size || share == 0 {
            return refuse(format!(
                "a batch of {batch_size} images cannot be shared equally by {world} processes; \
                 take a batch size that is a multiple of {world}, or another number of processes"
            ));
        }
        Ok(rank * share..(rank + 1) * share)
    }

    /// Replaces each tensor by its mean over the ranks, with the same bytes on every rank. All tensors are `f32`
    /// or `f64` and have the same types and shapes on every rank.
    ///
    /// # Errors
    /// [`Error::Rank`] if another rank failed; [`Error::Distributed`] if the tensors differ in number, type or
    /// shape, or if the engine fails.
    pub fn mean(&self, tensors: &mut [Tensor]) -> Result<()> {
        let Some(members) = &self.0 else { return Ok(()) };
        let total: usize = tensors.iter().map(Tensor::elem_count).sum();
        members.agree([MEAN | layout_of(tensors), total as u64])?;
        let mut rest = tensors;
        while !rest.is_empty() {
            let (bucket, after) = rest.split_at_mut(bucket_len(rest));
            mean_of_bucket(members, bucket)?;
            rest = after;
        }
        Ok(())
    }

    /// Returns the bytes of rank 0 on every rank. The bytes of the other ranks are ignored.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Distributed`].
    pub fn share(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let Some(members) = &self.0 else { return Ok(bytes) };
        let all = members.agree([SHARE, bytes.len() as u64])?;
        members.of_rank(0, bytes, all[0][1])
    }

    /// Returns whether the flag of any rank is set. It is also a barrier: all ranks have reached it when it returns.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Distributed`].
    pub fn any(&self, flag: bool) -> Result<bool> {
        let Some(members) = &self.0 else { return Ok(flag) };
        let all = members.agree([ANY, u64::from(flag)])?;
        Ok(all.iter().any(|message| message[1] != 0))
    }

    /// Ends the group after success. It must be the last call.
    ///
    /// # Errors
    /// [`Error::Rank`] if another rank failed at the last moment; [`Error::Distributed`].
    pub fn finish(&self) -> Result<()> {
        let Some(members) = &self.0 else { return Ok(()) };
        members.agree([FINISH, 0])?;
        members.state.set(State::Over);
        Ok(())
    }

    /// Ends the group because this rank failed for the reason `why`; the other ranks end with that reason. It
    /// waits until they reach their next common operation, and does nothing if the group has ended already.
    pub fn fail(&self, why: &str) {
        if let Some(members) = self.0.as_ref().filter(|members| members.state.get() == State::Open) {
            // The other ranks notice the failure of this message themselves.
            let _ =
                members.exchange([FAIL, why.len() as u64]).and_then(|all| members.check_failure(&all, why));
        }
    }
}

impl Members {
    /// Exchanges the next operation with the other ranks and checks that all agree.
    fn agree(&self, mine: Message) -> Result<Vec<Message>> {
        let all = self.exchange(mine)?;
        self.check_failure(&all, "")?;
        let differs = |theirs: &Message| theirs[0] != mine[0] || (mine[0] >= MEAN && theirs[1] != mine[1]);
        if let Some(other) = all.iter().position(differs) {
            // Every rank sees some difference.
            self.state.set(State::Over);
            return refuse(format!(
                "rank {} and rank {other} have come to different operations; start all processes with the same program \
                 and arguments",
                self.rank
            ));
        }
        Ok(all)
    }

    /// Returns the messages of all ranks, in their order.
    fn exchange(&self, mine: Message) -> Result<Vec<Message>> {
        if self.state.get() != State::Open {
            return refuse("the group of processes has ended; start a new run");
        }
        let mut all = vec![Message::default(); self.world];
        all[self.rank] = mine;
        let bytes =
            self.sum_of_bytes(all.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect())?;
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        all.as_flattened_mut().iter_mut().zip(words).for_each(|(word, theirs)| *word = theirs);
        Ok(all)
    }

    /// Returns the error of the first rank that failed, if any, with its reason. The reason of this rank is `why`.
    fn check_failure(&self, all: &[Message], why: &str) -> Result<()> {
        let Some(rank) = all.iter().position(|message| message[0] == FAIL) else { return Ok(()) };
        let message = self.of_rank(rank, why.into(), all[rank][1])?;
        self.state.set(State::Over);
        Err(Error::Rank(rank, String::from_utf8_lossy(&message).into_owned()))
    }

    /// Returns the `length` bytes of `rank` on every rank; that rank passes them as `mine`.
    fn of_rank(&self, rank: usize, mine: Vec<u8>, length: u64) -> Result<Vec<u8>> {
        self.sum_of_bytes(if self.rank == rank { mine } else { vec![0; length as usize] })
    }

    /// Returns the bytes of all ranks. In each place all ranks but one must have a zero.
    fn sum_of_bytes(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        for bytes in bytes.chunks_mut(BUCKET) {
            let numbers: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte)).collect();
            let sum = self.sum(&Tensor::new(numbers, &Device::Cpu)?)?.to_vec1::<f32>()?;
            bytes.iter_mut().zip(sum).for_each(|(byte, sum)| *byte = sum as u8);
        }
        Ok(bytes)
    }

    /// Returns the engine's sum. After a failure the group makes no further attempt.
    fn sum(&self, vector: &Tensor) -> Result<Tensor> {
        self.engine.sum(vector).inspect_err(|_| self.state.set(State::Broken))
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        match self.state.get() {
            State::Over => self.engine.close(),
            State::Open | State::Broken => self.engine.abort(),
        }
    }
}

/// Returns the number of leading tensors for one message: of one type, within the limit.
fn bucket_len(tensors: &[Tensor]) -> usize {
    let mut elements = 0;
    let fits = |tensor: &&Tensor| {
        elements += tensor.elem_count();
        elements <= BUCKET
            && tensor.dtype() == tensors[0].dtype()
            && tensor.device().same_device(tensors[0].device())
    };
    tensors.iter().take_while(fits).count().max(1)
}

fn mean_of_bucket(members: &Members, bucket: &mut [Tensor]) -> Result<()> {
    let parts =
        bucket.iter().map(|tensor| tensor.detach().flatten_all()).collect::<candle_core::Result<Vec<_>>>()?;
    let flat = Tensor::cat(&parts, 0)?.contiguous()?;
    if flat.elem_count() == 0 {
        return Ok(());
    }
    let mean = (members.sum(&flat)? / members.world as f64)?;
    let mut start = 0;
    for tensor in bucket {
        let count = tensor.elem_count();
        *tensor = mean.narrow(0, start, count)?.reshape(tensor.shape())?;
        start += count;
    }
    Ok(())
}

/// Returns a number that depends on the types and shapes of all tensors.
fn layout_of(tensors: &[Tensor]) -> u64 {
    let mut hasher = DefaultHasher::new();
    tensors.iter().for_each(|tensor| (tensor.dtype().size_in_bytes(), tensor.dims()).hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests;
