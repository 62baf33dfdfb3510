//! Pooling of boxes from a pyramid: from the level that fits their size (FPN paper, Eq. 1), or from several levels.

mod onnx;

use candle_core::{DType, Device, Tensor};
use ebm_ops::boxes::{BBox, BoxConvention, area};
use ebm_ops::roi::Levels;

use crate::Result;
use crate::config::{DetectorConfig, RefinerNetworkConfig};

/// Method of pooling a box to a fixed-size feature map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// RoIAlign: the mean of bilinear samples, with their number per bin and direction; no gradient in the box.
    RoiAlign(usize),
    /// PrRoIPool: the exact integral, differentiable in the box.
    PrRoi,
}

/// Pooler of boxes, which chooses the level of each box.
#[derive(Clone, Debug)]
pub struct Pooler {
    pooling: Pooling,
    /// Image pixels per map pixel, finest first.
    strides: Vec<usize>,
    /// Position in the image of the centre of each level's first pixel.
    origins: Vec<f32>,
    /// Side of a box on level `canonical_level`, which is numbered as in P2 ….
    canonical_size: f32,
    canonical_level: usize,
    /// Index of the coarsest level that is chosen for a box.
    coarsest: usize,
    views: Vec<View>,
    convention: BoxConvention,
}

/// View of a box: the level and the region that it is pooled from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct View {
    /// Number of levels above the box's own.
    offset: usize,
    /// Factor by which the box is enlarged about its centre.
    context: f32,
    /// Bins per side.
    bins: usize,
}

impl View {
    /// Returns the number of bins of a pooled box.
    pub fn len(&self) -> usize {
        self.bins * self.bins
    }

    /// Returns the numbers of bins in both directions.
    pub fn out(&self) -> (usize, usize) {
        (self.bins, self.bins)
    }

    /// Enlarges `boxes (R, 4)` by `context`; differentiable. The map is linear and symmetric, so that it also converts
    /// a gradient in the enlarged box to the gradient in the box.
    pub fn enlarged(&self, boxes: &Tensor) -> Result<Tensor> {
        if self.context == 1.0 {
            return Ok(boxes.clone());
        }
        let (low, high) = (boxes.narrow(1, 0, 2)?, boxes.narrow(1, 2, 2)?);
        let center = ((&low + &high)? * 0.5)?;
        let half = ((high - low)? * (0.5 * f64::from(self.context)))?;
        Ok(Tensor::cat(&[&(&center - &half)?, &(&center + &half)?], 1)?)
    }
}

/// Pooled boxes, grouped by level.
pub struct Pooled {
    /// Pooled features `(R, C Σ size²)`, with the views concatenated and the rows grouped by level.
    pub features: Tensor,
    /// Row of box i, so that `index_select(position)` restores the input's order.
    pub position: Vec<u32>,
    /// Box of row r: the inverse of `position`.
    pub order: Vec<u32>,
}

/// Boxes in one view.
pub(crate) struct Rows {
    /// Level of each box.
    pub levels: Vec<usize>,
    /// Rows (image, x0, y0, x1, y1) of the boxes, relative to their levels' origins, `(R, 5)`, on the CPU.
    pub rois: Tensor,
}

/// Boxes in each view, ready for PrRoIPool in prediction: from all levels at once, without autograd.
pub(crate) struct PreparedBoxes<'a>(Vec<(&'a View, Levels, Tensor)>);

impl Pooler {
    /// Creates the pooler of a detector.
    pub fn new(config: &DetectorConfig, pooling: Pooling) -> Self {
        let (roi, strides) = (&config.roi, DetectorConfig::STRIDES[..4].to_vec());
        Self {
            pooling,
            canonical_size: roi.canonical_size,
            canonical_level: roi.canonical_level,
            coarsest: strides.len() - 1,
            origins: strides.iter().map(|stride| config.backbone.body.origin(*stride)).collect(),
            strides,
            views: vec![View { offset: 0, context: 1.0, bins: roi.pool_size }],
            convention: config.convention,
        }
    }

    /// Creates the pooler of a refiner, which uses PrRoIPool.
    pub fn of_refiner(config: &RefinerNetworkConfig) -> Self {
        let views = config.views.iter();
        let views = views.map(|view| View { offset: view.level, context: view.context, bins: view.bins });
        Self {
            pooling: Pooling::PrRoi,
            strides: config.strides.clone(),
            origins: config.strides.iter().map(|stride| config.body.origin(*stride)).collect(),
            canonical_size: config.canonical_size,
            canonical_level: config.strides.first().map_or(0, |stride| stride.ilog2() as usize),
            coarsest: config.coarsest_level,
            views: views.collect(),
            convention: BoxConvention::HalfOpen,
        }
    }

    /// Returns the views that every box is pooled in.
    pub(crate) fn views(&self) -> &[View] {
        &self.views
    }

    /// Returns the map pixels per image pixel of each level.
    pub fn scales(&self) -> impl Iterator<Item = f64> {
        (0..self.strides.len()).map(|level| self.scale(level))
    }

    /// Returns the number of values of a pooled box with `channels` channels.
    pub fn output_len(&self, channels: usize) -> usize {
        channels * self.views.iter().map(View::len).sum::<usize>()
    }

    /// Returns the index of a box's level: k = ⌊k₀ + log₂(√area / canonical size + 1e-6)⌋, clamped to the levels.
    pub fn level(&self, bbox: &BBox) -> usize {
        if self.coarsest == 0 {
            return 0;
        }
        let ratio = area(bbox, self.convention).max(0.0).sqrt() / self.canonical_size;
        let level = (self.canonical_level as f32 + (ratio + 1e-6).log2()).floor();
        let first = self.strides.first().map_or(0, |stride| stride.ilog2() as usize);
        // A float-to-integer cast saturates, so even an absurd box gets a level.
        (level as usize).clamp(first, first + self.coarsest) - first
    }

    /// Returns the level that `view` pools a box of level `level` from.
    fn level_seen(&self, level: usize, view: &View) -> usize {
        (level + view.offset).min(self.strides.len() - 1)
    }

    /// Returns the rows of each view for `boxes (R, 4)` in input pixels, on the CPU, with box i in image
    /// `images[i]`; differentiable.
    pub(crate) fn rows(&self, boxes: &Tensor, images: &[u32]) -> Result<Vec<Rows>> {
        let levels = self.levels(boxes)?;
        let image = Tensor::new(images, boxes.device())?.to_dtype(boxes.dtype())?.unsqueeze(1)?;
        let rows = self.views.iter().map(|view| {
            let levels: Vec<usize> = levels.iter().map(|level| self.level_seen(*level, view)).collect();
            let mut seen = view.enlarged(boxes)?;
            if self.origins.iter().any(|origin| *origin != 0.0) {
                let origins: Vec<f32> = levels.iter().map(|level| self.origins[*level]).collect();
                let origins = Tensor::from_vec(origins, (levels.len(), 1), boxes.device())?;
                seen = seen.broadcast_sub(&origins.to_dtype(boxes.dtype())?)?;
            }
            Ok(Rows { levels, rois: Tensor::cat(&[&image, &seen], 1)? })
        });
        rows.collect()
    }

    /// Returns the level of each of `boxes (R, 4)`.
    fn levels(&self, boxes: &Tensor) -> Result<Vec<usize>> {
        let corners = boxes.detach().to_dtype(DType::F32)?.to_vec2::<f32>()?;
        Ok(corners.iter().map(|c| self.level(&[c[0], c[1], c[2], c[3]])).collect())
    }

    /// Pools `boxes (R, 4)` in input pixels, on the CPU, with box i in image `images[i]` of the pyramid.
    pub fn pool(&self, pyramid: &[Tensor], boxes: &Tensor, images: &[u32]) -> Result<Pooled> {
        if images.is_empty() {
            let map = &pyramid[0];
            let empty = (0, self.output_len(map.dim(1)?));
            let features = Tensor::zeros(empty, map.dtype(), map.device())?;
            return Ok(Pooled { features, position: vec![], order: vec![] });
        }
        let levels = self.levels(boxes)?;
        let mut order: Vec<u32> = (0..images.len() as u32).collect();
        order.sort_by_key(|&i| levels[i as usize]);
        let mut position = vec![0u32; order.len()];
        for (row, &i) in (0u32..).zip(&order) {
            position[i as usize] = row;
        }
        let rois = self.rows(boxes, images)?.into_iter().map(|Rows { mut rois, .. }| {
            if !order.is_sorted() {
                rois = rois.index_select(&Tensor::new(order.as_slice(), boxes.device())?, 0)?;
            }
            Ok(rois.to_device(pyramid[0].device())?)
        });
        let rois = rois.collect::<Result<Vec<_>>>()?;
        let (mut pooled, mut start) = (Vec::new(), 0);
        for group in order.chunk_by(|a, b| levels[*a as usize] == levels[*b as usize]) {
            let level = levels[group[0] as usize];
            let tiles = self.views.iter().zip(&rois).map(|(view, rois)| {
                let rois = rois.narrow(0, start, group.len())?;
                Ok(self.pool_at(pyramid, self.level_seen(level, view), view, &rois)?.flatten_from(1)?)
            });
            pooled.push(Tensor::cat(&tiles.collect::<Result<Vec<_>>>()?, 1)?);
            start += group.len();
        }
        Ok(Pooled { features: Tensor::cat(&pooled, 0)?, position, order })
    }

    /// Prepares `boxes (R, 4)` in input pixels, on the CPU, for pooling on the maps' device, with box i in image
    /// `images[i]` of the pyramid.
    pub(crate) fn prepare(
        &self,
        pyramid: &[Tensor],
        boxes: &Tensor,
        images: &[u32],
    ) -> Result<PreparedBoxes<'_>> {
        let maps: Vec<_> = pyramid.iter().zip(self.scales()).collect();
        let rows = self.views.iter().zip(self.rows(boxes, images)?).map(|(view, Rows { levels, rois })| {
            let numbers = levels.iter().map(|level| *level as f32);
            let numbers = Tensor::from_iter(numbers, &Device::Cpu)?.to_dtype(boxes.dtype())?.unsqueeze(1)?;
            let rows = Tensor::cat(&[&numbers, &rois], 1)?.to_device(pyramid[0].device())?;
            Ok((view, Levels::new(&maps, view.out())?, rows))
        });
        Ok(PreparedBoxes(rows.collect::<Result<_>>()?))
    }

    /// Pools rows of boxes from one level.
    fn pool_at(&self, pyramid: &[Tensor], level: usize, view: &View, rois: &Tensor) -> Result<Tensor> {
        let (map, scale) = (&pyramid[level], self.scale(level));
        Ok(match self.pooling {
            Pooling::RoiAlign(ratio) => ebm_ops::roi::roi_align(map, rois, view.out(), scale, ratio, false)?,
            Pooling::PrRoi => ebm_ops::roi::prroi_pool(map, rois, view.out(), scale)?,
        })
    }

    /// Returns the map pixels per image pixel of a level.
    fn scale(&self, level: usize) -> f64 {
        1.0 / self.strides[level] as f64
    }
}

impl PreparedBoxes<'_> {
    /// Pools the boxes, and concatenates the views of each: bins outside and channels innermost, `(R, Σ size²·C)`.
    pub fn pool(&self) -> Result<Tensor> {
        let pooled = self.0.iter().map(|(_, levels, rows)| Ok(levels.pool(rows)?));
        Ok(Tensor::cat(&pooled.collect::<Result<Vec<_>>>()?, 1)?)
    }

    /// Returns the gradient in the boxes, `(R, 4)` on the CPU, given the `gradient` in the output of
    /// [`pool`](Self::pool).
    pub fn box_gradient(&self, gradient: &Tensor) -> Result<Tensor> {
        let bins: usize = self.0.iter().map(|(view, ..)| view.len()).sum();
        let (channels, mut start) = (gradient.dim(1)? / bins.max(1), 0);
        let of_views = self.0.iter().map(|(view, levels, rows)| {
            let own = gradient.narrow(1, start, view.len() * channels)?;
            start += view.len() * channels;
            view.enlarged(&levels.box_gradient(rows, &own)?)
        });
        let sum = of_views.reduce(|sum, own| Ok((sum? + own?)?));
        sum.unwrap_or_else(|| Ok(Tensor::zeros((gradient.dim(0)?, 4), gradient.dtype(), &Device::Cpu)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RefinerConfig, Settings, ViewConfig};

    /// Returns the sum of the pooled values, weighted by position, and its gradient in the boxes.
    fn weighted(pooler: &Pooler, pyramid: &[Tensor], boxes: &Tensor) -> (f64, Tensor) {
        let prepared = pooler.prepare(pyramid, boxes, &[0, 1, 0]).unwrap();
        let pooled = prepared.pool().unwrap();
        let weights = (0..pooled.elem_count()).map(|i| (i * 37 % 23) as f64 / 11.0 - 1.0).collect();
        let weights = Tensor::from_vec(weights, pooled.shape(), &Device::Cpu).unwrap();
        let sum = (&pooled * &weights).unwrap().sum_all().unwrap().to_scalar().unwrap();
        (sum, prepared.box_gradient(&weights).unwrap())
    }

    #[test]
    fn finite_differences_through_several_views() {
        let mut config = RefinerConfig::embedded("refiner").unwrap().network;
        (config.strides, config.coarsest_level, config.canonical_size) = (vec![4, 8, 16], 1, 40.0);
        let view = |(level, context, bins)| ViewConfig { level, context, bins };
        config.views = [(0, 1.0, 3), (1, 1.5, 2), (2, 0.5, 1)].map(view).to_vec();
        let pooler = Pooler::of_refiner(&config);
        let map = |side: usize| {
            let value = |i: usize| ((i * 7919 + side) % 101) as f64 / 50.0 - 1.0;
            let values: Vec<f64> = (0..2 * 2 * side * side).map(value).collect();
            Tensor::from_vec(values, (2, 2, side, side), &Device::Cpu).unwrap()
        };
        let pyramid = [32, 16, 8].map(map);
        // Boxes on levels 1, 0 and 1, so that the rows are reordered.
        let boxes = [[8.3, 9.1, 117.7, 90.2], [20.6, 31.3, 41.9, 52.4], [-6.1, 3.7, 103.3, 99.9f64]];
        let (_, gradient) = weighted(&pooler, &pyramid, &Tensor::new(&boxes, &Device::Cpu).unwrap());
        let gradient = gradient.to_vec2::<f64>().unwrap();
        const STEP: f64 = 1e-5;
        for (i, j) in (0..12).map(|at| (at / 4, at % 4)) {
            let moved = |by: f64| {
                let mut boxes = boxes;
                boxes[i][j] += by;
                weighted(&pooler, &pyramid, &Tensor::new(&boxes, &Device::Cpu).unwrap()).0
            };
            let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let found = gradient[i][j];
            assert!((difference - found).abs() < 1e-6 && found.abs() > 1e-6, "{i} {j}: {difference} {found}");
        }
    }
}
