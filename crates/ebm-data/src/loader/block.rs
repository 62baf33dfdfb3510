//! Reusable memory of batches.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Numbers of a batch. When they are dropped, a later batch of the same iteration reuses their memory. Returning
/// tens of megabytes to the system and getting them again, zeroed, takes as long as decoding an image.
#[derive(Clone, Debug)]
pub struct Block {
    pub(super) numbers: Vec<f32>,
    home: Weak<BufferPool>,
}

impl Deref for Block {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let numbers = std::mem::take(&mut self.numbers);
        if let Some(buffers) = self.home.upgrade().filter(|_| !numbers.is_empty()) {
            buffers.put(numbers);
        }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }
}

/// Pool of the memory of dropped blocks.
pub(super) struct BufferPool {
    limit: usize,
    memories: Mutex<Vec<Vec<f32>>>,
}

impl BufferPool {
    /// Makes a pool that keeps at most `limit` buffers.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, memories: Mutex::default() })
    }

    /// Returns a block of `len` arbitrary numbers. A buffer that is too small is replaced by a larger one, so
    /// that in time each buffer fits every batch.
    pub fn take(self: &Arc<Self>, len: usize) -> Block {
        let memory = self.memories.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut numbers = memory.filter(|memory| memory.capacity() >= len).unwrap_or_else(|| vec![0.; len]);
        numbers.resize(len, 0.);
        Block { numbers, home: Arc::downgrade(self) }
    }

    fn put(&self, memory: Vec<f32>) {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        if memories.len() < self.limit {
            memories.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returns_and_the_pool_has_a_limit() {
        let buffers = BufferPool::new(2);
        let capacities = || {
            let memories = buffers.memories.lock().unwrap();
            memories.iter().map(Vec::capacity).collect::<Vec<_>>()
        };
        drop([10, 30, 20].map(|len| buffers.take(len)));
        assert_eq!(capacities(), [10, 30]);
        let block = buffers.take(15);
        assert_eq!((block.len(), block.numbers.capacity(), capacities()), (15, 30, vec![10]));
        // The buffer is too small, so it is dropped.
        let larger = buffers.take(31);
        assert_eq!((larger.len(), capacities()), (31, vec![]));
        assert_eq!(block.clone(), block);
        drop((block, larger));
        assert_eq!(capacities().len(), 2);
        assert_eq!(buffers.take(30).len(), 30);
    }

    #[test]
    fn a_block_outlives_its_pool() {
        let buffers = BufferPool::new(2);
        let block = buffers.take(3);
        drop(buffers);
        assert_eq!(block.len(), 3);
    }
}
