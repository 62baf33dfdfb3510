//! Buffers that are used again from call to call.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Tensor};

use crate::storage::unwritten;

/// Bytes of a cache line. Vectors that lie across two lines take two reads.
const LINE: usize = 64;

/// Buffers that calls hand back when done, so that a network's layers share them: to return large blocks to
/// the system and to fetch them again costs about as much time as a layer's arithmetic.
#[derive(Debug, Default)]
pub struct Workspace {
    free: Mutex<Vec<Vec<f32>>>,
}

/// Most buffers that are kept.
const MOST: usize = 32;

impl Workspace {
    /// A workspace without buffers yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { free: Mutex::new(Vec::new()) }
    }

    /// The one that all layers of the process use.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: Workspace = Workspace::new();
        &SHARED
    }

    /// A buffer of `len` numbers, whatever these are: the smallest that is large enough, else the largest,
    /// grown.
    #[must_use]
    pub fn take(&self, len: usize) -> Vec<f32> {
        let mut buffer = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let key = |i: &usize| {
                let capacity = free[*i].capacity();
                (capacity < len, capacity.abs_diff(len))
            };
            (0..free.len()).min_by_key(key).map(|i| free.swap_remove(i)).unwrap_or_default()
        };
        if buffer.capacity() < len {
            // Nothing of the old numbers is worth a copy.
            return unwritten(len);
        }
        buffer.resize(len, 0.0);
        buffer
    }

    /// Takes the numbers of a map that `result` was computed from as a buffer; nobody else holds the map, nor a view of
    /// it. It is dropped where it is not f32 on the CPU, or a part of a graph, or a gradient that goes through `result`
    /// will ask for it: the input of the first layer that is trained is a part of no graph itself.
    pub fn recycle_input(&self, map: Tensor, result: &Tensor) {
        if result.track_op() || map.track_op() || !crate::nn::is_packable(&map) {
            return;
        }
        // Nothing is computed, so that nothing can fail but the access to the map's numbers: they are dropped
        // then.
        let _ = map.inplace_op1(&Taken(self));
    }

    /// Hands a buffer back where these numbers are in one.
    pub(crate) fn give_owned(&self, numbers: Cow<'_, [f32]>) {
        if let Cow::Owned(buffer) = numbers {
            self.give(buffer);
        }
    }

    /// Hands a buffer back.
    pub fn give(&self, buffer: Vec<f32>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.capacity() > 0 && free.len() < MOST {
            free.push(buffer);
        }
    }
}

/// Takes a tensor's numbers away.
struct Taken<'a>(&'a Workspace);

impl InplaceOp1 for Taken<'_> {
    fn name(&self) -> &'static str {
        "recycle"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
        if let CpuStorage::F32(numbers) = storage {
            self.0.give(std::mem::take(numbers));
        }
        Ok(())
    }
}

/// How many numbers to ask for, so that `len` of them can start at a cache line.
pub(crate) fn room(len: usize) -> usize {
    len + LINE / size_of::<f32>()
}

/// Where the first cache line starts in a buffer that has [`room`].
pub(crate) fn line_start(buffer: &[f32]) -> usize {
    // The answer may be "unknown", usize::MAX: speed is lost then and nothing else.
    buffer.as_ptr().align_offset(LINE).min(LINE / size_of::<f32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let workspace = Workspace::new();
        let (small, large) = (workspace.take(10), workspace.take(100));
        let pointers = [small.as_ptr(), large.as_ptr()];
        workspace.give(small);
        workspace.give(large);
        let large = workspace.take(50);
        assert_eq!(large.as_ptr(), pointers[1]);
        let again = workspace.take(8);
        assert_eq!((again.len(), again.as_ptr()), (8, pointers[0]));
        assert_eq!(workspace.take(7).len(), 7);
    }

    #[test]
    fn a_map_gives_its_numbers() {
        let workspace = Workspace::new();
        let buffer = workspace.take(12);
        let pointer = buffer.as_ptr();
        let map = Tensor::from_vec(buffer, (3, 4), &candle_core::Device::Cpu).unwrap();
        let result = map.copy().unwrap();
        workspace.recycle_input(map, &result);
        let again = workspace.take(12);
        assert_eq!(again.as_ptr(), pointer);
    }

    #[test]
    fn lines_start_within_the_room() {
        let buffer = vec![0.0f32; room(5)];
        let start = line_start(&buffer);
        assert!(start + 5 <= buffer.len());
        assert_eq!(buffer[start..].as_ptr() as usize % LINE, 0);
    }
}
