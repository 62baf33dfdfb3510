//! A residual network and its pyramid for inference: packed weights, channels innermost from end to end.

use candle_core::Tensor;
use rayon::prelude::*;

use super::Fpn;
use crate::ops::upsample::sources;
use crate::ops::{ChannelsLast, PackedConv2d, Workspace};
use crate::resnet::{Conv2d, Map, PackedResNet, ResNet};
use crate::{Error, Result};

/// A [`ResNet`] with an [`Fpn`] on it, as they are when not trained, on the CPU in f32.
#[derive(Debug)]
pub struct PackedBackbone {
    body: PackedResNet,
    laterals: Vec<PackedConv2d>,
    outputs: Vec<PackedConv2d>,
}

impl PackedBackbone {
    /// The networks with their present parameters.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn new(body: &ResNet, fpn: &Fpn) -> Result<Self> {
        let pack = |convs: &[Conv2d]| convs.iter().map(Conv2d::pack).collect::<Result<Vec<_>>>();
        Ok(Self { body: body.pack()?, laterals: pack(&fpn.laterals)?, outputs: pack(&fpn.outputs)? })
    }

    /// (N, 3, H, W) -> \[P2, …, P5, P6\] as [`Fpn::forward`] gives them up to rounding, stored with the channels
    /// innermost.
    ///
    /// # Errors
    /// When the body has fewer stages than the pyramid inputs, or `x` has another number of channels or is not f32 on
    /// the CPU.
    pub fn forward(&self, x: &Tensor) -> Result<Vec<Tensor>> {
        let workspace = self.body.workspace();
        let maps = self.body.maps(x, self.laterals.len(), 0)?;
        let mut levels = Vec::with_capacity(maps.len() + 1);
        let mut above: Option<Map> = None;
        for ((map, lateral), output) in maps.into_iter().zip(&self.laterals).zip(&self.outputs).rev() {
            let (_, _, height, width) = map.shape();
            let enlarged =
                above.as_ref().map(|above| enlarge(above, [height, width], workspace)).transpose()?;
            let merged = lateral.forward(&map, enlarged.as_ref(), false, workspace)?;
            let level = output.forward(&merged, None, false, workspace)?;
            if levels.is_empty() {
                levels.push(every_other(&level)?);
            }
            levels.push(level);
            enlarged
                .into_iter()
                .chain(above.replace(merged))
                .chain([map])
                .for_each(|map| workspace.recycle(map));
        }
        above.into_iter().for_each(|map| workspace.recycle(map));
        levels.reverse();
        levels.into_iter().map(ChannelsLast::into_tensor).collect()
    }
}

/// Nearest pixels, as [`upsample_nearest2d`](crate::ops::upsample_nearest2d).
fn enlarge(map: &Map, to: [usize; 2], workspace: &Workspace) -> Result<Map> {
    let (n, c, height, width) = map.shape();
    let [rows, columns] = [sources(height, to[0]), sources(width, to[1])];
    let mut y = workspace.take(n * to[0] * to[1] * c);
    y.par_chunks_mut(to[1] * c).enumerate().for_each(|(i, row)| {
        let from = &map.data()[(i / to[0] * height + rows[i % to[0]]) * width * c..][..width * c];
        for (pixel, j) in row.chunks_exact_mut(c).zip(&columns) {
            pixel.copy_from_slice(&from[j * c..(j + 1) * c]);
        }
    });
    ChannelsLast::new(y, (n, c, to[0], to[1]))
}

/// Every other pixel of every other row.
fn every_other(map: &Map) -> Result<Map> {
    let (n, c, height, width) = map.shape();
    if n * c * height * width == 0 {
        return Err(Error::Argument { op: "Fpn::forward", reason: "a map has no pixels".to_owned() });
    }
    let mut y = Vec::with_capacity(n * c * height.div_ceil(2) * width.div_ceil(2));
    for image in map.data().chunks_exact(height * width * c) {
        for row in image.chunks_exact(width * c).step_by(2) {
            row.chunks_exact(c).step_by(2).for_each(|pixel| y.extend_from_slice(pixel));
        }
    }
    ChannelsLast::new(y, (n, c, height.div_ceil(2), width.div_ceil(2)))
}
