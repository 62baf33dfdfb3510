//! Pooling boxes from the pyramid level that fits their size (FPN, Eq. 1 there).

use candle_core::{DType, Tensor};
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
    /// `(R)`: the row that holds box i, so that `index_select(position)` restores the input's order.
    pub position: Tensor,
    /// The box that row r holds: the inverse of `position`.
    pub order: Vec<u32>,
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
        DetectorConfig::STRIDES[..LEVELS.count()].iter().map(|&stride| 1.0 / stride as f64)
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

    /// Pools `boxes (R, 4)` in input pixels, box i lying in image `images[i]` of the pyramid.
    pub fn pool(&self, pyramid: &[Tensor], boxes: &Tensor, images: &[u32]) -> Result<Pooled> {
        let count = images.len();
        let device = boxes.device();
        let corners = boxes.detach().to_dtype(DType::F32)?.to_vec2::<f32>()?;
        let mut groups = vec![Vec::new(); LEVELS.count()];
        for (i, c) in corners.iter().enumerate() {
            groups[self.level(&[c[0], c[1], c[2], c[3]])].push(i as u32);
        }
        let image = Tensor::new(images, device)?.to_dtype(boxes.dtype())?.unsqueeze(1)?;
        let rois = Tensor::cat(&[&image, boxes], 1)?;
        let order = groups.concat();
        let mut position = vec![0u32; count];
        for (row, &i) in (0u32..).zip(&order) {
            position[i as usize] = row;
        }
        let mut pooled = vec![];
        for (level, group) in groups.into_iter().enumerate().filter(|(_, group)| !group.is_empty()) {
            let rois = if group.len() == count {
                rois.clone()
            } else {
                rois.index_select(&Tensor::new(group, device)?, 0)?
            };
            let scale = 1.0 / DetectorConfig::STRIDES[level] as f64;
            let out = (self.size, self.size);
            pooled.push(match self.pooling {
                Pooling::RoiAlign(ratio) => ops::roi_align(&pyramid[level], &rois, out, scale, ratio, false)?,
                Pooling::PrRoi => ops::prroi_pool(&pyramid[level], &rois, out, scale)?,
            });
        }
        let features = match pooled.as_slice() {
            [] => Tensor::zeros((0, pyramid[0].dim(1)?, self.size, self.size), boxes.dtype(), device)?,
            [one] => one.clone(),
            several => Tensor::cat(several, 0)?,
        };
        Ok(Pooled { features, position: Tensor::new(position, device)?, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ExperimentConfig;
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
            let restored = pooled.features.index_select(&pooled.position, 0).unwrap();
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
