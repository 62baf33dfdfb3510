//! Suppression on a GPU.

use candle_core::{CudaDevice, Result, bail};

use super::{BBox, BoxConvention};
use crate::boxes::area;
use crate::cuda::{count, launch, sizes, unwritten};

/// Boxes in a word of bits, and threads that walk through a group (`nms.cu`).
const WORD: usize = 64;
const THREADS: usize = 256;

/// Returns for each box of `order` whether it stays. `groups` has the sizes of the groups. The boxes of a group are adjacent,
/// by descending score.
pub(super) fn suppress(
    device: &CudaDevice,
    order: &[usize],
    groups: &[usize],
    boxes: &[BBox],
    threshold: f32,
    convention: BoxConvention,
) -> Result<Vec<bool>> {
    let (len, words) = (order.len(), order.len().div_ceil(WORD));
    let mut rows = Vec::with_capacity(5 * len);
    for bbox in order.iter().filter_map(|&index| boxes.get(index)) {
        rows.extend(bbox);
        rows.push(area(bbox, convention));
    }
    let (mut starts, mut ends) = (vec![0i32], Vec::with_capacity(len));
    for &size in groups {
        let end = ends.len() + size;
        starts.push(count(end)? as i32);
        ends.resize(end, count(end)? as i32);
    }
    if rows.len() != 5 * len || ends.len() != len {
        bail!("nms: {len} boxes are in order, {} of them in groups", ends.len());
    }
    let (rows, starts, ends) =
        (device.clone_htod(&rows)?, device.clone_htod(&starts)?, device.clone_htod(&ends)?);
    let (mut overlaps, mut kept) = (unwritten::<u64>(device, len * words)?, unwritten::<i32>(device, len)?);
    let mut gone = device.alloc_zeros::<u64>(groups.len() * words)?;
    let ([width], equal) = (sizes([words])?, i32::from(convention == BoxConvention::Inclusive));
    let offset = convention.offset();
    launch!(device, NMS::"nms_overlaps", f32, len * words;
        &rows, &ends, &mut overlaps, &width, &threshold, &offset, &equal);
    launch!(device, NMS::"nms_walk", f32, groups.len() * THREADS;
        &overlaps, &starts, &mut gone, &mut kept, &width);
    Ok(device.clone_dtoh(&kept)?.into_iter().map(|kept| kept != 0).collect())
}
