//! Buffers that are used again from call to call.

use std::sync::{Mutex, PoisonError};

use crate::ops::roi::ChannelsLast;
use crate::ops::storage::zeros;

/// Bytes of a cache line. Vectors that lie across two lines take two reads.
const LINE: usize = 64;

/// Buffers that calls hand back when done, so that a network's layers share them: to return large blocks to the
/// system and to fetch them again costs about as much time as a layer's arithmetic.
#[derive(Debug, Default)]
pub struct Workspace {
    free: Mutex<Vec<Vec<f32>>>,
}

impl Workspace {
    /// A workspace without buffers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer of `len` numbers, whatever these are: the smallest that is large enough, else the largest, grown.
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
            return zeros(len);
        }
        buffer.resize(len, 0.0);
        buffer
    }

    /// Takes the numbers of a map that is no longer needed as a buffer.
    pub fn recycle(&self, map: ChannelsLast<'static, f32>) {
        self.give(map.into_data().into_owned());
    }

    /// Hands a buffer back.
    pub fn give(&self, buffer: Vec<f32>) {
        if buffer.capacity() > 0 {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        }
    }
}

/// How many numbers to ask for, so that `len` of them can start at a cache line.
pub(in crate::ops) fn room(len: usize) -> usize {
    len + LINE / size_of::<f32>()
}

/// Where the first cache line starts in a buffer that has [`room`].
pub(in crate::ops) fn line_start(buffer: &[f32]) -> usize {
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
    fn lines_start_within_the_room() {
        let buffer = vec![0.0f32; room(5)];
        let start = line_start(&buffer);
        assert!(start + 5 <= buffer.len());
        assert_eq!(buffer[start..].as_ptr() as usize % LINE, 0);
    }
}
