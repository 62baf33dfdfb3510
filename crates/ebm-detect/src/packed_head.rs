//! Confidence branch with constant parameters: f and its gradient in the box without autograd, on the CPU in f32.
//!
//! Pooled boxes stay in the order of pooling, with the bins outside and the channels innermost; fc6's columns are
//! packed in that order. Only the box's own class is evaluated in the last layer.

use candle_core::{Device, Storage, Tensor};
use ebm_ops::Workspace;
use ebm_ops::boxes::BBox;
use ebm_ops::nhwc::ChannelsLast;
use ebm_ops::nn::PackedLinear;
use ebm_ops::roi::Pyramid;

use crate::{Result, layers::rows_of_four, pooler::Pooler};

/// Largest number of boxes that are evaluated at a time.
const BOXES: usize = 448;

/// Packed form of an [`EnergyHead`](crate::EnergyHead) with constant parameters.
pub struct PackedHead {
    pooler: Pooler,
    /// Layers fc6 and fc7.
    layers: [PackedLinear; 2],
    /// Weight of the last layer, `(K, representation)`, one row per class.
    weight: Vec<Vec<f32>>,
    /// Bias of the last layer, `(K)`.
    bias: Vec<f32>,
    workspace: Workspace,
}

/// Boxes in one view.
struct ViewBoxes<'a> {
    pyramid: &'a Pyramid<'a, f32>,
    /// Rows (image, x0, y0, x1, y1) of the boxes in this view, and the level of each.
    rois: Vec<f32>,
    levels: Vec<usize>,
}

impl ViewBoxes<'_> {
    /// Returns the boxes at the indices `places`.
    fn only(&self, places: &[usize]) -> Self {
        let roi = |&place: &usize| self.rois[5 * place..5 * (place + 1)].iter().copied();
        Self {
            pyramid: self.pyramid,
            rois: places.iter().flat_map(roi).collect(),
            levels: places.iter().map(|&place| self.levels[place]).collect(),
        }
    }
}

/// Predicate over a box's index and its f that is `true` if the box's gradient is needed.
pub type NeedsGradient<'a> = &'a dyn Fn(usize, f64) -> bool;

impl PackedHead {
    /// Creates a head from the pooler, the packed layers fc6 and fc7, and the last layer's
    /// `weight (K, representation)` and `bias (K)`.
    pub fn new(pooler: Pooler, layers: [PackedLinear; 2], weight: &Tensor, bias: &Tensor) -> Result<Self> {
        let (weight, bias) = (weight.to_vec2()?, bias.to_vec1()?);
        Ok(Self { pooler, layers, weight, bias, workspace: Workspace::new() })
    }

    /// Computes f of `boxes (R, 4)` with valid `labels`, `(R)`, and with `needs_gradient` its gradient in their
    /// corners, `(R, 4)`, which is 0 for boxes whose gradient is not needed.
    pub fn evaluate(
        &self,
        pyramid: &[Tensor],
        boxes: &Tensor,
        images: &[u32],
        labels: &[u32],
        needs_gradient: Option<NeedsGradient<'_>>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let storage: Vec<_> = pyramid.iter().map(Tensor::storage_and_layout).collect();
        let maps =
            storage.iter().zip(self.pooler.scales()).map(|((storage, layout), scale)| match &**storage {
                Storage::Cpu(storage) => Ok((ChannelsLast::of_storage(storage, layout)?, scale)),
                _ => Err(candle_core::Error::Msg("a packed head reads features on the CPU".to_owned())),
            });
        let maps = maps.collect::<std::result::Result<Vec<_>, _>>()?;
        let pyramids = self.pooler.views().iter().map(|view| Pyramid::new(maps.clone(), view.out()));
        let pyramids = pyramids.collect::<ebm_nn::Result<Vec<_>>>()?;
        let (mut f, mut gradient) = (Vec::new(), vec![BBox::default(); labels.len()]);
        for (chunk, labels) in labels.chunks(BOXES).enumerate() {
            let first = chunk * BOXES;
            let boxes = boxes.narrow(0, first, labels.len())?;
            let seen = self.view_boxes(&pyramids, &boxes, &images[first..first + labels.len()])?;
            self.add(&seen, labels, needs_gradient, &mut f, &mut gradient[first..])?;
        }
        let of_boxes = |gradient: Vec<BBox>| {
            Tensor::from_slice(gradient.as_flattened(), (gradient.len(), 4), &Device::Cpu)
        };
        let gradient = needs_gradient.map(|_| of_boxes(gradient)).transpose()?;
        Ok((Tensor::new(f, &Device::Cpu)?, gradient))
    }

    /// Returns the boxes in each view.
    fn view_boxes<'a>(
        &self,
        pyramids: &'a [Pyramid<'a, f32>],
        boxes: &Tensor,
        images: &[u32],
    ) -> Result<Vec<ViewBoxes<'a>>> {
        let rows = self.pooler.rows(boxes, images)?.into_iter().zip(pyramids);
        let seen = rows.map(|(rows, pyramid)| {
            Ok(ViewBoxes { pyramid, rois: rows.rois.flatten_all()?.to_vec1()?, levels: rows.levels })
        });
        seen.collect()
    }

    /// Evaluates some boxes together, appends their f, and writes their gradients.
    fn add(
        &self,
        seen: &[ViewBoxes<'_>],
        labels: &[u32],
        needs_gradient: Option<NeedsGradient<'_>>,
        f: &mut Vec<f32>,
        gradient: &mut [BBox],
    ) -> Result<()> {
        let ([fc6, fc7], workspace) = (&self.layers, &self.workspace);
        let (first, width) = (f.len(), fc7.outputs());
        let pooled = self.pool(seen, labels.len())?;
        let hidden = fc6.forward(&pooled, true, workspace)?;
        let output = fc7.forward(&hidden, true, workspace)?;
        workspace.give(pooled);
        let of_class = |(output, &label): (&[f32], &u32)| {
            self.bias[label as usize] + dot(output, &self.weight[label as usize])
        };
        f.extend(output.chunks_exact(width).zip(labels).map(of_class));
        let needs_gradient = |place: &usize| {
            needs_gradient
                .is_some_and(|needs_gradient| needs_gradient(first + place, f64::from(f[first + place])))
        };
        let needed: Vec<usize> = (0..labels.len()).filter(needs_gradient).collect();
        if !needed.is_empty() {
            let [of_hidden, of_output] =
                [&hidden, &output].map(|all| self.gathered(all, &needed, labels.len()));
            let mut weights = workspace.take(needed.len() * width);
            for (to, &place) in weights.chunks_exact_mut(width).zip(&needed) {
                to.copy_from_slice(&self.weight[labels[place] as usize]);
            }
            let in_hidden = fc7.input_gradient(&weights, Some(&of_output), workspace)?;
            let in_pooled = fc6.input_gradient(&in_hidden, Some(&of_hidden), workspace)?;
            [of_hidden, of_output, weights, in_hidden].into_iter().for_each(|buffer| workspace.give(buffer));
            let seen: Vec<ViewBoxes<'_>> = seen.iter().map(|seen| seen.only(&needed)).collect();
            for (&place, of_box) in needed.iter().zip(self.box_gradients(&seen, in_pooled, needed.len())?) {
                gradient[place] = of_box;
            }
        }
        [hidden, output].into_iter().for_each(|buffer| workspace.give(buffer));
        Ok(())
    }

    /// Copies the rows `needed` of the `count` rows in `all`.
    fn gathered(&self, all: &[f32], needed: &[usize], count: usize) -> Vec<f32> {
        let width = all.len() / count;
        let mut rows = self.workspace.take(needed.len() * width);
        for (to, &place) in rows.chunks_exact_mut(width).zip(needed) {
            to.copy_from_slice(&all[place * width..(place + 1) * width]);
        }
        rows
    }

    /// Pools the boxes, and concatenates the views of each.
    fn pool(&self, seen: &[ViewBoxes<'_>], boxes: usize) -> Result<Vec<f32>> {
        let tile = |seen: &ViewBoxes<'_>| -> Result<Vec<f32>> {
            let mut tiles = self.workspace.take(boxes * seen.pyramid.tile_len());
            seen.pyramid.pool(&seen.rois, &seen.levels, &mut tiles)?;
            Ok(tiles)
        };
        if let [one] = seen {
            return tile(one);
        }
        let len: usize = seen.iter().map(|seen| seen.pyramid.tile_len()).sum();
        let (mut pooled, mut start) = (self.workspace.take(boxes * len), 0);
        for seen in seen {
            let (tiles, own) = (tile(seen)?, seen.pyramid.tile_len());
            for (to, tile) in pooled.chunks_exact_mut(len).zip(tiles.chunks_exact(own)) {
                to[start..start + own].copy_from_slice(tile);
            }
            self.workspace.give(tiles);
            start += own;
        }
        Ok(pooled)
    }

    /// Returns the gradient in the boxes, given the gradient in the output of [`pool`](Self::pool).
    fn box_gradients(&self, seen: &[ViewBoxes<'_>], pooled: Vec<f32>, boxes: usize) -> Result<Vec<BBox>> {
        let (len, mut start, mut sum) = (pooled.len() / boxes, 0, None);
        for (seen, view) in seen.iter().zip(self.pooler.views()) {
            let own = seen.pyramid.tile_len();
            let of_tiles = |tiles: &[f32]| seen.pyramid.backward_rois(&seen.rois, &seen.levels, tiles);
            let found = if own == len {
                of_tiles(&pooled)?
            } else {
                let mut tiles = self.workspace.take(boxes * own);
                for (tile, from) in tiles.chunks_exact_mut(own).zip(pooled.chunks_exact(len)) {
                    tile.copy_from_slice(&from[start..start + own]);
                }
                let found = of_tiles(&tiles)?;
                self.workspace.give(tiles);
                found
            };
            let found = view.enlarged(&rows_of_four(&found, &Device::Cpu)?)?;
            sum = Some(match sum {
                None => found,
                Some(sum) => (sum + found)?,
            });
            start += own;
        }
        self.workspace.give(pooled);
        let sum = sum.map_or(Ok(vec![]), |sum| sum.flatten_all()?.to_vec1::<f32>())?;
        Ok(sum.as_chunks::<4>().0.to_vec())
    }
}

/// Returns `aᵀ b`, with one partial sum per lane of the processor's vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}
