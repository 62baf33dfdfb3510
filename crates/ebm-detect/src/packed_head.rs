//! The confidence branch of constant parameters: f and its gradient in the box without a graph, on the CPU in
//! f32.
//!
//! Pooled boxes keep the order in which they are made, bins outside and channels innermost; fc6's columns
//! were put in that order when they were packed. Of the last layer, the row of the class in question alone is
//! read.

use candle_core::{Storage, Tensor};
use ebm_ops::Workspace;
use ebm_ops::boxes::BBox;
use ebm_ops::nhwc::ChannelsLast;
use ebm_ops::nn::PackedLinear;
use ebm_ops::roi::Pyramid;

use crate::{
    Result,
    energy_head::{BoxFeatures, unknown_class},
    pooler::Pooler,
};

/// Most boxes whose activations are held at a time.
const BOXES: usize = 448;

/// What an [`EnergyHead`](crate::EnergyHead) prepares of constant parameters.
pub struct PackedHead {
    pooler: Pooler,
    /// fc6 and fc7.
    layers: [PackedLinear; 2],
    /// `(K, representation)`, one row per class.
    weight: Vec<Vec<f32>>,
    /// `(K)`.
    bias: Vec<f32>,
    workspace: Workspace,
}

/// Boxes in one view.
struct Seen<'a> {
    pyramid: &'a Pyramid<'a, f32>,
    /// Rows (image, x0, y0, x1, y1) of the boxes as they are seen, and the level of each.
    rois: Vec<f32>,
    levels: Vec<usize>,
}

impl Seen<'_> {
    /// Of these boxes alone.
    fn only(&self, places: &[usize]) -> Self {
        let roi = |&place: &usize| self.rois[5 * place..5 * (place + 1)].iter().copied();
        Self {
            pyramid: self.pyramid,
            rois: places.iter().flat_map(roi).collect(),
            levels: places.iter().map(|&place| self.levels[place]).collect(),
        }
    }
}

/// Of which boxes the gradient is read, by their place and their f.
type IsRead<'a> = &'a dyn Fn(usize, f64) -> bool;

/// f of some boxes, and its gradient in their corners where it is read, elsewhere 0.
#[derive(Default)]
struct Evaluated {
    f: Vec<f32>,
    gradient: Vec<[f32; 4]>,
}

impl PackedHead {
    /// Of the pooling and the packed layers; `weight (K, representation)` and `bias (K)` are the last
    /// layer's.
    pub fn new(pooler: Pooler, layers: [PackedLinear; 2], weight: &Tensor, bias: &Tensor) -> Result<Self> {
        let (weight, bias) = (weight.to_vec2()?, bias.to_vec1()?);
        Ok(Self { pooler, layers, weight, bias, workspace: Workspace::new() })
    }

    fn evaluate(&self, features: &BoxFeatures, y: &Tensor, is_read: Option<IsRead<'_>>) -> Result<Evaluated> {
        let (_, m, _) = y.dims3()?;
        let corners = features.corners(&y.detach())?.flatten(0, 1)?.to_vec2::<f32>()?;
        let storage: Vec<_> = features.levels().iter().map(Tensor::storage_and_layout).collect();
        let maps =
            storage.iter().zip(self.pooler.scales()).map(|((storage, layout), scale)| match &**storage {
                Storage::Cpu(storage) => Ok((ChannelsLast::of_storage(storage, layout)?, scale)),
                _ => Err(candle_core::Error::Msg("a packed head reads features on the CPU".to_owned())),
            });
        let maps = maps.collect::<std::result::Result<Vec<_>, _>>()?;
        let pyramids = self.pooler.views().iter().map(|view| Pyramid::new(maps.clone(), view.out()));
        let pyramids = pyramids.collect::<ebm_nn::Result<Vec<_>>>()?;
        let mut all = Evaluated::default();
        for (chunk, corners) in corners.chunks(BOXES).enumerate() {
            let objects = (chunk * BOXES..).take(corners.len()).map(|row| features.object(row / m));
            let (images, labels): (Vec<u32>, Vec<u32>) = objects.unzip();
            let boxes: Vec<BBox> = corners.iter().map(|c| [c[0], c[1], c[2], c[3]]).collect();
            let seen = self.seen(&pyramids, &boxes, &images);
            self.add(&seen, &labels, is_read, &mut all)?;
        }
        Ok(all)
    }

    /// The boxes in each view.
    fn seen<'a>(&self, pyramids: &'a [Pyramid<'a, f32>], boxes: &[BBox], images: &[u32]) -> Vec<Seen<'a>> {
        let seen = pyramids.iter().zip(self.pooler.views()).map(|(pyramid, view)| {
            let (mut rois, mut levels) = (Vec::new(), Vec::new());
            for (bbox, &image) in boxes.iter().zip(images) {
                let (level, [a, b, c, d]) = self.pooler.seen(*bbox, view);
                rois.extend([image as f32, a, b, c, d]);
                levels.push(level);
            }
            Seen { pyramid, rois, levels }
        });
        seen.collect()
    }

    /// Evaluates some boxes, all at once.
    fn add(
        &self,
        seen: &[Seen<'_>],
        labels: &[u32],
        is_read: Option<IsRead<'_>>,
        all: &mut Evaluated,
    ) -> Result<()> {
        let workspace = &self.workspace;
        let rows = labels.iter().map(|&label| self.row(label)).collect::<Result<Vec<_>>>()?;
        let pooled = self.pool(seen, labels.len())?;
        let [fc6, fc7] = &self.layers;
        let hidden = fc6.forward(&pooled, true, workspace)?;
        let output = fc7.forward(&hidden, true, workspace)?;
        workspace.give(pooled);
        let width = fc7.outputs();
        let first = all.f.len();
        for (output, (weight, bias)) in output.chunks_exact(width).zip(&rows) {
            all.f.push(bias + dot(output, weight));
        }
        if let Some(is_read) = is_read {
            let read: Vec<usize> = (0..labels.len())
                .filter(|&place| is_read(first + place, f64::from(all.f[first + place])))
                .collect();
            let weights = read.iter().map(|&place| rows[place].0);
            let activations = [&hidden, &output].map(|all| self.gathered(all, &read, labels.len()));
            let gradients = self.gradients(seen, weights, &read, &activations)?;
            activations.into_iter().for_each(|buffer| workspace.give(buffer));
            all.gradient.resize(all.f.len(), BBox::default());
            for (place, gradient) in read.into_iter().zip(gradients) {
                all.gradient[first + place] = gradient;
            }
        }
        [hidden, output].into_iter().for_each(|buffer| workspace.give(buffer));
        Ok(())
    }

    /// The gradients of f in the corners of the boxes `read`, from the last layer's `weights` and what fc6 and fc7 made of
    /// them.
    fn gradients<'w>(
        &self,
        seen: &[Seen<'_>],
        weights: impl ExactSizeIterator<Item = &'w [f32]>,
        read: &[usize],
        [hidden, output]: &[Vec<f32>; 2],
    ) -> Result<Vec<BBox>> {
        if read.is_empty() {
            return Ok(vec![]);
        }
        let ([fc6, fc7], workspace) = (&self.layers, &self.workspace);
        let width = fc7.outputs();
        let mut gradient = workspace.take(read.len() * width);
        for (to, weight) in gradient.chunks_exact_mut(width).zip(weights) {
            to.copy_from_slice(weight);
        }
        let in_hidden = fc7.input_gradient(&gradient, Some(output), workspace)?;
        let in_pooled = fc6.input_gradient(&in_hidden, Some(hidden), workspace)?;
        [gradient, in_hidden].into_iter().for_each(|buffer| workspace.give(buffer));
        let seen: Vec<Seen<'_>> = seen.iter().map(|seen| seen.only(read)).collect();
        self.box_gradients(&seen, in_pooled, read.len())
    }

    /// The rows `read` of the `count` in `all`.
    fn gathered(&self, all: &[f32], read: &[usize], count: usize) -> Vec<f32> {
        let width = all.len() / count;
        let mut rows = self.workspace.take(read.len() * width);
        for (to, &place) in rows.chunks_exact_mut(width).zip(read) {
            to.copy_from_slice(&all[place * width..(place + 1) * width]);
        }
        rows
    }

    /// The pooled boxes, the views of each side by side.
    fn pool(&self, seen: &[Seen<'_>], boxes: usize) -> Result<Vec<f32>> {
        let tile = |seen: &Seen<'_>| -> Result<Vec<f32>> {
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

    /// The gradient in the boxes, from the one in what [`pool`](Self::pool) makes of them.
    fn box_gradients(&self, seen: &[Seen<'_>], pooled: Vec<f32>, boxes: usize) -> Result<Vec<BBox>> {
        if let ([seen], [view]) = (seen, self.pooler.views()) {
            let found = seen.pyramid.backward_rois(&seen.rois, &seen.levels, &pooled)?;
            self.workspace.give(pooled);
            return Ok(found.into_iter().map(|gradient| view.enlarged(gradient)).collect());
        }
        let len: usize = seen.iter().map(|seen| seen.pyramid.tile_len()).sum();
        let (mut sum, mut start) = (vec![BBox::default(); boxes], 0);
        for (seen, view) in seen.iter().zip(self.pooler.views()) {
            let own = seen.pyramid.tile_len();
            let mut tiles = self.workspace.take(boxes * own);
            for (tile, from) in tiles.chunks_exact_mut(own).zip(pooled.chunks_exact(len)) {
                tile.copy_from_slice(&from[start..start + own]);
            }
            let gradients = seen.pyramid.backward_rois(&seen.rois, &seen.levels, &tiles)?;
            for (sum, gradient) in sum.iter_mut().zip(gradients) {
                let gradient = view.enlarged(gradient);
                *sum = std::array::from_fn(|i| sum[i] + gradient[i]);
            }
            self.workspace.give(tiles);
            start += own;
        }
        self.workspace.give(pooled);
        Ok(sum)
    }

    /// The last layer's weights and bias for a class.
    fn row(&self, label: u32) -> Result<(&[f32], f32)> {
        match (self.weight.get(label as usize), self.bias.get(label as usize)) {
            (Some(weight), Some(bias)) => Ok((weight, *bias)),
            _ => Err(unknown_class(label, self.bias.len())),
        }
    }

    /// f, `(B, M)`.
    pub fn f(&self, features: &BoxFeatures, y: &Tensor) -> Result<Tensor> {
        let (b, m, _) = y.dims3()?;
        Ok(Tensor::from_vec(self.evaluate(features, y, None)?.f, (b, m), y.device())?)
    }

    /// f, `(B, M)`, and its gradient in `y (B, M, 4)` where it is read, elsewhere 0.
    pub fn f_and_gradient(
        &self,
        features: &BoxFeatures,
        y: &Tensor,
        is_read: IsRead<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let (b, m, _) = y.dims3()?;
        let Evaluated { f, gradient } = self.evaluate(features, y, Some(is_read))?;
        let corners = Tensor::from_slice(gradient.as_flattened(), (b, m, 4), y.device())?;
        Ok((Tensor::from_vec(f, (b, m), y.device())?, features.pull_back(&y.detach(), &corners)?))
    }
}

/// `aᵀ b`, in so many partial sums as vectors may have lanes.
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
