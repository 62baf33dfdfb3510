//! Memory of batches that is used again.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The numbers of a batch. Dropped, they leave their memory to a later batch of the same iteration: to give
/// tens of megabytes back to the system and to get them anew, zeroed, takes as long as to decode an image.
pub struct Block {
    /// May be longer than the block.
    memory: Vec<f32>,
    len: usize,
    home: Weak<BufferPool>,
}

impl Block {
    pub(super) fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }

    /// Forgets all but the first `len` numbers.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Block {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        if let Some(buffers) = self.home.upgrade().filter(|_| !memory.is_empty()) {
            buffers.put(memory);
        }
    }
}

impl Clone for Block {
    fn clone(&self) -> Self {
        Self { memory: self.to_vec(), len: self.len, home: Weak::new() }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, formatter)
    }
}

/// Where the memory of dropped blocks waits.
pub(super) struct BufferPool {
    limit: usize,
    memories: Mutex<Vec<Vec<f32>>>,
}

impl BufferPool {
    /// Keeps at most `limit` memories.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, memories: Mutex::default() })
    }

    /// A block of `len` arbitrary numbers.
    pub fn take(self: &Arc<Self>, len: usize) -> Block {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = memories.iter().enumerate().filter(|(_, memory)| memory.len() >= len);
        let tightest = fitting.min_by_key(|(_, memory)| memory.len()).map(|(index, _)| index);
        let memory = tightest.map(|index| memories.swap_remove(index));
        drop(memories);
        Block { memory: memory.unwrap_or_else(|| vec![0.; len]), len, home: Arc::downgrade(self) }
    }

    /// Of too many memories the smallest goes, so that in time each that is kept fits every batch.
    fn put(&self, memory: Vec<f32>) {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.push(memory);
        if memories.len() > self.limit {
            let smallest = (0..memories.len()).min_by_key(|&index| memories[index].len());
            let dropped = smallest.map(|index| memories.swap_remove(index));
            // The system takes its time over large memories; nobody need wait for that.
            drop(memories);
            drop(dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returns_and_the_largest_stay() {
        let buffers = BufferPool::new(2);
        let lengths = || {
            let mut lengths: Vec<_> = buffers.memories.lock().unwrap().iter().map(Vec::len).collect();
            lengths.sort_unstable();
            lengths
        };
        drop([10, 30, 20].map(|len| buffers.take(len)));
        assert_eq!(lengths(), [20, 30]);
        let mut block = buffers.take(15);
        assert_eq!((block.len(), lengths()), (15, vec![30]));
        block.truncate(4);
        assert_eq!(block.len(), 4);
        let copy = block.clone();
        assert_eq!(copy, block);
        drop(copy);
        assert_eq!(lengths(), [30]);
        drop(block);
        assert_eq!(lengths(), [20, 30]);
        // Nothing fits: a memory of its own.
        assert_eq!(buffers.take(31).len(), 31);
        assert_eq!(lengths(), [30, 31]);
    }

    #[test]
    fn a_block_outlives_its_pool() {
        let buffers = BufferPool::new(2);
        let block = buffers.take(3);
        drop(buffers);
        assert_eq!(block.len(), 3);
    }
}
