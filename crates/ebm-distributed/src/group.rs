//! What the processes of a training do together, whatever carries it.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use candle_core::Tensor;
use ebm_seed::Key;

use crate::{Error, Launch, Message, Reduce, Result};

/// Most elements that are sent in one message: 16 MiB of f32. A gradient's many small tensors are few
/// messages.
const BUCKET: usize = 1 << 22;

/// The processes that train together. Clones are the same group.
///
/// Every method is called by all ranks in the same order. Before each of them acts, the ranks tell each other
/// what they are about to do: a rank that failed says so there ([`fail`](Self::fail)), and all others get
/// [`Error::Rank`] from whatever they were about to do, with its number and reason. So none waits for one
/// that has given up, and none mistakes one message for another.
///
/// A group that is dropped before [`finish`](Self::finish) or [`fail`](Self::fail), by a panic for example,
/// aborts the others.
#[derive(Clone)]
pub struct Group(Option<Rc<Members>>);

struct Members {
    engine: Box<dyn Reduce>,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At work.
    Open,
    /// Every rank knows that it is over.
    Over,
    /// The engine failed: nobody knows what the others know.
    Broken,
}

/// What a rank is about to do; the first word of four. The second is an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Act {
    Mean = 1,
    Share = 2,
    Any = 3,
    Finish = 4,
    Fail = 5,
}

impl Act {
    fn name(word: u64) -> &'static str {
        match word {
            1 => "takes a mean",
            2 => "receives from rank 0",
            3 => "asks whether any rank agrees",
            4 => "has finished",
            _ => "does something unknown",
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank(), self.world())
    }
}

impl Default for Group {
    fn default() -> Self {
        Self::alone()
    }
}

impl Group {
    /// One process: nothing is sent, nothing copied.
    #[must_use]
    pub fn alone() -> Self {
        Self(None)
    }

    /// The ranks of `engine`; alone where it is one.
    #[must_use]
    pub fn new(engine: Box<dyn Reduce>) -> Self {
        if engine.world() < 2 {
            engine.close();
            return Self::alone();
        }
        Self(Some(Rc::new(Members { engine, state: Cell::new(State::Open) })))
    }

    /// The number of this process, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |members| members.engine.rank())
    }

    /// How many processes there are.
    #[must_use]
    pub fn world(&self) -> usize {
        self.0.as_ref().map_or(1, |members| members.engine.world())
    }

    /// Whether this is rank 0, which alone writes files and reports.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The key of this rank's draws: `key` itself for rank 0, `"rank" → r` under it for the others.
    #[must_use]
    pub fn key(&self, key: Key) -> Key {
        if self.is_first() { key } else { key.split("rank").index(self.rank() as u64) }
    }

    /// This rank's share of a batch, as [`Launch::share`].
    ///
    /// # Errors
    /// Those of [`Launch::share`].
    pub fn share_of(&self, batch_size: usize) -> Result<std::ops::Range<usize>> {
        Launch::share(self.rank(), self.world(), batch_size)
    }

    /// Replaces each tensor by its mean over the ranks, the same bytes on every rank; all are `f32` or `f64`,
    /// and of the same types and shapes on every rank.
    ///
    /// # Errors
    /// [`Error::Rank`] where another rank failed; [`Error::Distributed`] where the tensors differ in number,
    /// type or shape, or the engine fails.
    pub fn mean(&self, tensors: &mut [Tensor]) -> Result<()> {
        let Some(members) = &self.0 else { return Ok(()) };
        let total: usize = tensors.iter().map(Tensor::elem_count).sum();
        members.agree([Act::Mean as u64, total as u64, layout_of(tensors), 0])?;
        let mut rest = tensors;
        while !rest.is_empty() {
            let (bucket, after) = rest.split_at_mut(bucket_len(rest));
            members.carried(|engine| mean_of_bucket(engine, bucket))?;
            rest = after;
        }
        Ok(())
    }

    /// The bytes of rank 0, on every rank. What the others give is ignored.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Distributed`].
    pub fn share(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let Some(members) = &self.0 else { return Ok(bytes) };
        let messages = members.agree([Act::Share as u64, bytes.len() as u64, 0, 0])?;
        let length = messages.first().map_or(0, |first| first[1]);
        members.carried(|engine| {
            let mut shared = if engine.rank() == 0 { bytes } else { vec![0; length as usize] };
            engine.broadcast(0, &mut shared)?;
            Ok(shared)
        })
    }

    /// Whether the flag of any rank is set. All ranks have come this far when it returns.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Distributed`].
    pub fn any(&self, flag: bool) -> Result<bool> {
        let Some(members) = &self.0 else { return Ok(flag) };
        let messages = members.agree([Act::Any as u64, u64::from(flag), 0, 0])?;
        Ok(messages.iter().any(|message| message[1] != 0))
    }

    /// The last call where all went well.
    ///
    /// # Errors
    /// [`Error::Rank`] where another rank failed at the last moment; [`Error::Distributed`].
    pub fn finish(&self) -> Result<()> {
        let Some(members) = &self.0 else { return Ok(()) };
        members.agree([Act::Finish as u64, 0, 0, 0])?;
        members.state.set(State::Over);
        Ok(())
    }

    /// The last call where this rank failed for the reason `why`: the others end with it. Does nothing where
    /// all know already that it is over. It waits until the others have come to their next common act.
    pub fn fail(&self, why: &str) {
        let Some(members) = self.0.as_ref().filter(|members| members.state.get() == State::Open) else {
            return;
        };
        // Whether the others hear of it shows there, not here.
        let _ = members.agree_to_fail(why.as_bytes());
    }

    /// Runs `work`; its failure is this rank's.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn guard<T, E: fmt::Display>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        work().inspect_err(|error| self.fail(&error.to_string()))
    }
}

impl Members {
    /// Tells the others what comes next and hears the same from them.
    fn agree(&self, mine: Message) -> Result<Vec<Message>> {
        let all = self.exchange(mine)?;
        self.hear_of_failure(&all, Vec::new())?;
        let differs = |theirs: &Message| {
            theirs[0] != mine[0]
                || (mine[0] == Act::Mean as u64 && (theirs[1], theirs[2]) != (mine[1], mine[2]))
        };
        if let Some(other) = all.iter().position(differs) {
            // Every rank sees some difference.
            self.state.set(State::Over);
            let reason = format!(
                "rank {} {} of {} elements where rank {other} {} of {}; start all processes with the same \
                 program and arguments",
                self.engine.rank(),
                Act::name(mine[0]),
                mine[1],
                Act::name(all[other][0]),
                all[other][1]
            );
            return Err(Error::Distributed { reason });
        }
        Ok(all)
    }

    fn agree_to_fail(&self, why: &[u8]) -> Result<()> {
        let all = self.exchange([Act::Fail as u64, why.len() as u64, 0, 0])?;
        self.hear_of_failure(&all, why.to_vec())
    }

    fn exchange(&self, message: Message) -> Result<Vec<Message>> {
        if self.state.get() != State::Open {
            return Err(Error::Distributed { reason: "the processes have parted".into() });
        }
        self.carried(|engine| engine.exchange(message))
    }

    /// The first rank's failure, if there is any, with its reason.
    fn hear_of_failure(&self, all: &[Message], mine: Vec<u8>) -> Result<()> {
        let Some(rank) = all.iter().position(|message| message[0] == Act::Fail as u64) else { return Ok(()) };
        let mut message = mine;
        if self.engine.rank() != rank {
            message = vec![0; all[rank][1] as usize];
        }
        self.carried(|engine| engine.broadcast(rank, &mut message))?;
        self.state.set(State::Over);
        Err(Error::Rank { rank, message: String::from_utf8_lossy(&message).into_owned() })
    }

    /// Runs something on the engine, after whose failure nothing more is tried.
    fn carried<T>(&self, work: impl FnOnce(&dyn Reduce) -> Result<T>) -> Result<T> {
        work(&*self.engine).inspect_err(|_| self.state.set(State::Broken))
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

/// How many of the tensors go together: of one type, within the limit.
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

fn mean_of_bucket(engine: &dyn Reduce, bucket: &mut [Tensor]) -> Result<()> {
    let parts =
        bucket.iter().map(|tensor| tensor.detach().flatten_all()).collect::<candle_core::Result<Vec<_>>>()?;
    let flat = Tensor::cat(&parts, 0)?.contiguous()?;
    if flat.elem_count() == 0 {
        return Ok(());
    }
    let mean = (engine.sum(&flat)? / engine.world() as f64)?;
    let mut start = 0;
    for tensor in bucket {
        let count = tensor.elem_count();
        *tensor = mean.narrow(0, start, count)?.reshape(tensor.shape())?;
        start += count;
    }
    Ok(())
}

/// A number that depends on the types and shapes of all tensors (FNV-1a).
fn layout_of(tensors: &[Tensor]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    for tensor in tensors {
        add(tensor.dtype().size_in_bytes() as u64);
        add(tensor.rank() as u64);
        tensor.dims().iter().for_each(|&size| add(size as u64));
    }
    hash
}

#[cfg(test)]
mod tests;
