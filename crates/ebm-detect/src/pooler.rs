//! Pooling boxes from the pyramid level that fits their size (FPN, Eq. 1 there).

use candle_core::{DType, Device, Tensor};
use ebm_nn::{
    boxes::{BBox, BoxConvention, area},
    ops,
};

use crate::{config::DetectorConfig, error::Result};

/// How a box becomes a fixed-size feature map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Averaged bilinear samples, so many per bin and direction; no gradient in the box.
    RoiAlign(usize),
    /// The exact integral, differentiable in the box.
    PrRoi,
}

/// Chooses levels among P2 … P5 and pools there.
#[derive(Clone, Copy, Debug)]
pub struct Pooler {
    pooling: Pooling,
    size: usize,
    canonical_size: f32,
    canonical_level: usize,
    convention: BoxConvention,
}

/// Pooled boxes, grouped by level.
pub struct Pooled {
    /// `(R, C, size, size)`, rows in the groups' order.
    pub features: Tensor,
    /// The row that holds box i, so that `index_select(position)` restores the input's order.
    pub position: Vec<u32>,
    /// The box that row r holds: the inverse of `position`.
    pub order: Vec<u32>,
    /// The rows (image, x0, y0, x1, y1), `(R, 5)`, on the maps' device, and of how many each level is.
    rois: Tensor,
    counts: Vec<usize>,
}

const LEVELS: std::ops::RangeInclusive<usize> = 2..=5;

impl Pooler {
    /// Bins and levels as configured.
    pub fn new(config: &DetectorConfig, pooling: Pooling) -> Self {
        Self {
            pooling,
            size: config.roi.pool_size,
            canonical_size: config.roi.canonical_size,
            canonical_level: config.roi.canonical_level,
            convention: config.convention.into(),
        }
    }

    /// Bins per side.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Pixels of the maps P2 … P5 per image pixel.
    pub fn scales() -> impl Iterator<Item = f64> {
        (0..LEVELS.count()).map(scale)
    }

    /// Values per pooled box of `channels` channels.
    pub fn output_len(&self, channels: usize) -> usize {
        channels * self.size * self.size
    }

    /// Index into P2 … P5: k = ⌊k₀ + log₂(√area / canonical size + 1e-6)⌋ within them.
    pub fn level(&self, bbox: &BBox) -> usize {
        let ratio = area(bbox, self.convention).max(0.0).sqrt() / self.canonical_size;
        let level = (self.canonical_level as f32 + (ratio + 1e-6).log2()).floor();
        // A float-to-integer cast saturates, so even an absurd box gets a level.
        (level as usize).clamp(*LEVELS.start(), *LEVELS.end()) - LEVELS.start()
    }

    /// Pools `boxes (R, 4)` in input pixels, box i lying in image `images[i]` of the pyramid; they may be on
    /// another device than the maps.
    pub fn pool(&self, pyramid: &[Tensor], boxes: &Tensor, images: &[u32]) -> Result<Pooled> {
        let corners = boxes.detach().to_dtype(DType::F32)?.to_vec2::<f32>()?;
        let mut groups = vec![Vec::new(); LEVELS.count()];
        for (i, c) in corners.iter().enumerate() {
            groups[self.level(&[c[0], c[1], c[2], c[3]])].push(i as u32);
        }
        let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
        let order = groups.concat();
        let mut position = vec![0u32; order.len()];
        for (row, &i) in (0u32..).zip(&order) {
            position[i as usize] = row;
        }
        let image = Tensor::new(images, boxes.device())?.to_dtype(boxes.dtype())?.unsqueeze(1)?;
        let mut rois = Tensor::cat(&[&image, boxes], 1)?;
        if !order.is_sorted() {
            rois = rois.index_select(&Tensor::new(order.as_slice(), boxes.device())?, 0)?;
        }
        let rois = rois.to_device(pyramid[0].device())?;
        let out = (self.size, self.size);
        let pooled = by_level(&counts, |level, start, count| {
            let (map, rois, scale) = (&pyramid[level], rois.narrow(0, start, count)?, scale(level));
            Ok(match self.pooling {
                Pooling::RoiAlign(ratio) => ops::roi_align(map, &rois, out, scale, ratio, false)?,
                Pooling::PrRoi => ops::prroi_pool(map, &rois, out, scale)?,
            })
        })?;
        let none = (0, pyramid[0].dim(1)?, self.size, self.size);
        let features = match pooled {
            Some(features) => features,
            None => Tensor::zeros(none, pyramid[0].dtype(), pyramid[0].device())?,
        };
        Ok(Pooled { features, position, order, rois, counts })
    }

    /// The gradient in the boxes `(R, 4)`, on the CPU in the input's order, from
    /// `gradient (R, C, size, size)` in that of `pooled`, which came of PrRoIPool. Nothing is recorded.
    pub fn box_gradient(&self, pyramid: &[Tensor], pooled: &Pooled, gradient: &Tensor) -> Result<Tensor> {
        let out = (self.size, self.size);
        let found = by_level(&pooled.counts, |level, start, count| {
            let (rois, gradient) = (pooled.rois.narrow(0, start, count)?, gradient.narrow(0, start, count)?);
            Ok(ops::prroi_pool_box_gradient(&pyramid[level], &rois, out, scale(level), &gradient)?)
        })?;
        let Some(found) = found else {
            return Ok(Tensor::zeros((0, 4), gradient.dtype(), &Device::Cpu)?);
        };
        let found = found.to_device(&Device::Cpu)?.narrow(1, 1, 4)?.contiguous()?;
        Ok(found.index_select(&Tensor::new(pooled.position.as_slice(), &Device::Cpu)?, 0)?)
    }
}

/// Map pixels per image pixel of a level.
fn scale(level: usize) -> f64 {
    1.0 / DetectorConfig::STRIDES[level] as f64
}

/// The rows that `run(level, first row, rows)` makes of each level that has any, one after another; none
/// where there is no row.
fn by_level(
    counts: &[usize],
    mut run: impl FnMut(usize, usize, usize) -> Result<Tensor>,
) -> Result<Option<Tensor>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (level, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        parts.push(run(level, start, count)?);
        start += count;
    }
    Ok(match parts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(Tensor::cat(several, 0)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExperimentConfig, Settings};
    use candle_core::Device;

    fn pooler(pooling: Pooling) -> Pooler {
        Pooler::new(&ExperimentConfig::embedded("torchvision").unwrap().detector, pooling)
    }

    #[test]
    fn golden_levels() {
        let pooler = pooler(Pooling::PrRoi);
        let levels = [32., 111., 112., 224., 448., 447.].map(|side| pooler.level(&[0., 0., side, side]) + 2);
        assert_eq!(levels, [2, 2, 3, 4, 5, 4]);
        assert_eq!(pooler.level(&[0., 0., 1e30, 1e30]), 3);
        assert_eq!(pooler.level(&[5., 5., 1., 1.]), 0);
    }

    #[test]
    fn golden_levels_of_inclusive_boxes() {
        // A box from pixel 0 to pixel n - 1 has n pixels.
        let pooler =
            Pooler::new(&ExperimentConfig::embedded("paper").unwrap().detector, Pooling::RoiAlign(2));
        let levels = [32., 111., 112., 224., 448., 447.]
            .map(|side: f32| pooler.level(&[5., 9., 5. + side - 1., 9. + side - 1.]) + 2);
        assert_eq!(levels, [2, 2, 3, 4, 5, 4]);
    }

    #[test]
    fn rows_are_found_again_whatever_their_level() {
        let device = Device::Cpu;
        // Each level is constant, so a pooled box shows which level it came from.
        let pyramid: Vec<Tensor> = (0..4)
            .map(|l| {
                (Tensor::ones((1, 2, 256 >> l, 256 >> l), DType::F32, &device).unwrap() * f64::from(l))
                    .unwrap()
            })
            .collect();
        let boxes = Tensor::new(
            &[[8f32, 8., 600., 600.], [8., 8., 40., 40.], [8., 8., 130., 130.], [8., 8., 44., 44.]],
            &device,
        )
        .unwrap();
        for pooling in [Pooling::PrRoi, Pooling::RoiAlign(2)] {
            let pooled = pooler(pooling).pool(&pyramid, &boxes, &[0; 4]).unwrap();
            let position = Tensor::new(pooled.position, &device).unwrap();
            let restored = pooled.features.index_select(&position, 0).unwrap();
            let first = restored.flatten_from(1).unwrap().mean(1).unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(first.iter().map(|v| v.round() as i32).collect::<Vec<_>>(), [3, 0, 1, 0]);
        }
    }

    #[test]
    fn no_boxes_pool_to_no_rows() {
        let pyramid = vec![Tensor::zeros((1, 2, 8, 8), DType::F32, &Device::Cpu).unwrap(); 4];
        let boxes = Tensor::zeros((0, 4), DType::F32, &Device::Cpu).unwrap();
        let pooled = pooler(Pooling::PrRoi).pool(&pyramid, &boxes, &[]).unwrap();
        assert_eq!(pooled.features.dims(), [0, 2, 7, 7]);
    }
}
