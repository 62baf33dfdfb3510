//! From one order of a map's numbers to the other on a GPU.

use candle_core::backend::BackendStorage;
use candle_core::{CudaStorage, Result};

use crate::cuda::{Argument, Element, by_any_type, elements, launch, sizes, unwritten};

/// The side of the squares that a block of `reorder.cu` turns, and its threads.
const SIDE: usize = 32;
const THREADS: usize = 256;

/// Turns `n` matrices of (rows × columns) into (columns × rows).
pub(super) fn swap(map: Argument<'_>, [n, rows, columns]: [usize; 3]) -> Result<CudaStorage> {
    fn run<T: Element>(map: Argument<'_>, [n, rows, columns]: [usize; 3]) -> Result<CudaStorage> {
        let device = map.0.device();
        let from = elements::<T>(map.0, map.1)?;
        let mut to = unwritten::<T>(device, n * rows * columns)?;
        let blocks = n * rows.div_ceil(SIDE) * columns.div_ceil(SIDE);
        let [r, c] = sizes([rows, columns])?;
        launch!(device, REORDER::"reorder", T, blocks * THREADS; &from, &mut to, &r, &c);
        Ok(CudaStorage::wrap_cuda_slice(to, device.clone()))
    }
    by_any_type!(map.0, "reorder", run(map, [n, rows, columns]))
}
