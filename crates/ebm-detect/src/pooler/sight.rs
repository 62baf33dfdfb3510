//! Pooling for prediction: from all levels at once, without a graph.

use candle_core::{Device, Tensor};
use ebm_ops::roi::Levels;

use super::{Pooler, Rows, View};
use crate::Result;

/// R boxes as PrRoIPool sees them, in each view.
pub(crate) struct Sight<'a> {
    views: Vec<(&'a View, Levels, Tensor)>,
}

impl Pooler {
    /// Looks at `boxes (R, 4)` in input pixels, box i lying in image `images[i]` of the pyramid. They are on the
    /// CPU; what is made of them is on the maps' device.
    pub(crate) fn see(&self, pyramid: &[Tensor], boxes: &Tensor, images: &[u32]) -> Result<Sight<'_>> {
        let maps: Vec<_> = pyramid.iter().zip(self.scales()).collect();
        let rows = self.views.iter().zip(self.rows(boxes, images)?).map(|(view, Rows { levels, rois })| {
            let numbers = levels.iter().map(|level| *level as f32);
            let numbers = Tensor::from_iter(numbers, &Device::Cpu)?.to_dtype(boxes.dtype())?.unsqueeze(1)?;
            let rows = Tensor::cat(&[&numbers, &rois], 1)?.to_device(pyramid[0].device())?;
            Ok((view, Levels::new(&maps, view.out())?, rows))
        });
        Ok(Sight { views: rows.collect::<Result<_>>()? })
    }
}

impl Sight<'_> {
    /// The boxes pooled, the views of each side by side: bins outside and channels innermost, `(R, Σ size²·C)`.
    pub fn pool(&self) -> Result<Tensor> {
        let pooled = self.views.iter().map(|(_, levels, rows)| Ok(levels.pool(rows)?));
        side_by_side(&pooled.collect::<Result<Vec<_>>>()?)
    }

    /// The gradient in the boxes, `(R, 4)` on the CPU, from the one in what [`pool`](Self::pool) makes of them.
    pub fn box_gradient(&self, gradient: &Tensor) -> Result<Tensor> {
        let own = self.apart(gradient)?.into_iter().zip(&self.views);
        let by_view = own.map(|(own, (view, levels, rows))| view.enlarged(&levels.box_gradient(rows, &own)?));
        let sum = by_view.reduce(|sum, own| Ok((sum? + own?)?));
        sum.unwrap_or_else(|| Ok(Tensor::zeros((gradient.dim(0)?, 4), gradient.dtype(), &Device::Cpu)?))
    }

    /// What [`pool`](Self::pool) makes, with the channels of each view outside, as fc6 has them.
    pub fn channels_outside(&self, pooled: &Tensor) -> Result<Tensor> {
        self.turned(pooled, |bins, channels| (bins, channels))
    }

    /// The inverse of [`channels_outside`](Self::channels_outside).
    pub fn channels_innermost(&self, pooled: &Tensor) -> Result<Tensor> {
        self.turned(pooled, |bins, channels| (channels, bins))
    }

    fn turned(&self, pooled: &Tensor, as_it_is: fn(usize, usize) -> (usize, usize)) -> Result<Tensor> {
        let turned = self.apart(pooled)?.into_iter().zip(&self.views).map(|(own, (view, ..))| {
            let (rows, len) = own.dims2()?;
            let (outside, inside) = as_it_is(view.len(), len / view.len().max(1));
            Ok(own.reshape((rows, outside, inside))?.transpose(1, 2)?.reshape((rows, len))?)
        });
        side_by_side(&turned.collect::<Result<Vec<_>>>()?)
    }

    /// The columns of each view.
    fn apart(&self, pooled: &Tensor) -> Result<Vec<Tensor>> {
        let bins: usize = self.views.iter().map(|(view, ..)| view.len()).sum();
        let channels = pooled.dim(1)? / bins.max(1);
        let mut start = 0;
        let own = self.views.iter().map(|(view, ..)| {
            let len = view.len() * channels;
            start += len;
            Ok(pooled.narrow(1, start - len, len)?)
        });
        own.collect()
    }
}

fn side_by_side(views: &[Tensor]) -> Result<Tensor> {
    match views {
        [one] => Ok(one.clone()),
        several => Ok(Tensor::cat(several, 1)?),
    }
}
