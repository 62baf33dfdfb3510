//! Buffers that are used again from call to call.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Tensor};

use crate::storage::unwritten;

/// Bytes of a cache line. A vector that lies across two lines takes two reads.
const LINE: usize = 64;

/// Buffers that calls hand back when done, so that a network's layers share them. To return large blocks to the system and to
/// allocate them again costs about as much time as a layer's arithmetic.
#[derive(Debug, Default)]
pub struct Workspace {
    free: Mutex<Vec<Vec<f32>>>,
}

/// Most buffers that are kept.
const MOST: usize = 32;

impl Workspace {
    /// Makes a workspace without buffers.
    pub const fn new() -> Self {
        Self { free: Mutex::new(Vec::new()) }
    }

    /// Returns the workspace that all layers of the process use.
    pub fn shared() -> &'static Self {
        static SHARED: Workspace = Workspace::new();
        &SHARED
    }

    /// Returns a buffer of `len` numbers with any values: the smallest buffer that is large enough, else the largest, grown.
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
            // The old numbers are not worth a copy.
            return unwritten(len);
        }
        buffer.resize(len, 0.0);
        buffer
    }

    /// Takes the numbers of a map that `result` was computed from as a buffer. The caller must hold the only handle to the
    /// map and its views. The map is only dropped if it is not f32 on the CPU, is a part of a graph, or is needed for a
    /// gradient that goes through `result`: the input of the first trained layer is itself in no graph.
    pub fn recycle_input(&self, map: Tensor, result: &Tensor) {
        if result.track_op() || map.track_op() || !crate::nn::is_packable(&map) {
            return;
        }
        // Nothing is computed, so only the access to the map's numbers can fail. They are dropped then.
        let _ = map.inplace_op1(&TakeNumbers(self));
    }

    /// Hands a buffer back if these numbers are owned.
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

/// Operation that takes the numbers of a tensor.
struct TakeNumbers<'a>(&'a Workspace);

impl InplaceOp1 for TakeNumbers<'_> {
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

/// Returns the numbers to allocate so that `len` of them can start at a cache line.
pub(crate) fn room(len: usize) -> usize {
    len + LINE / size_of::<f32>()
}

/// Returns the index of the first cache line in a buffer that has [`room`].
pub(crate) fn line_start(buffer: &[f32]) -> usize {
    // The answer may be "unknown", usize::MAX. Then only speed is lost.
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
