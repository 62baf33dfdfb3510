//! The confidence branch of constant parameters: f and its gradient in the box without a graph, on the CPU in
//! f32.
//!
//! Pooled boxes keep the order in which they are made, bins outside and channels innermost; fc6's columns
//! were put in that order when they were packed. Of the last layer, the row of the class in question alone is
//! read.

use candle_core::{Storage, Tensor};
use ebm_nn::ops::{ChannelsLast, PackedLinear, Workspace, prroi_pool::Pyramid};

use crate::{
    energy_head::{BoxFeatures, unknown_class},
    error::Result,
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

/// f of some boxes, and where it is wanted its gradient in their corners.
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

    fn evaluate(&self, features: &BoxFeatures, y: &Tensor, with_gradient: bool) -> Result<Evaluated> {
        let (_, m, _) = y.dims3()?;
        let corners = features.corners(&y.detach())?.flatten(0, 1)?.to_vec2::<f32>()?;
        let storage: Vec<_> = features.levels().iter().map(Tensor::storage_and_layout).collect();
        let maps = storage.iter().zip(Pooler::scales()).map(|((storage, layout), scale)| match &**storage {
            Storage::Cpu(storage) => Ok((ChannelsLast::of_storage(storage, layout)?, scale)),
            _ => Err(candle_core::Error::Msg("a packed head reads features on the CPU".to_owned())),
        });
        let bins = self.pooler.size();
        let pyramid = Pyramid::new(maps.collect::<std::result::Result<_, _>>()?, (bins, bins))?;
        let mut all = Evaluated::default();
        for (chunk, corners) in corners.chunks(BOXES).enumerate() {
            let objects = (chunk * BOXES..).take(corners.len()).map(|row| features.object(row / m));
            let (images, labels): (Vec<u32>, Vec<u32>) = objects.unzip();
            let boxes = corners.iter().map(|c| [c[0], c[1], c[2], c[3]]);
            let levels: Vec<usize> = boxes.clone().map(|bbox| self.pooler.level(&bbox)).collect();
            let rois: Vec<f32> =
                boxes.zip(images).flat_map(|([a, b, c, d], image)| [image as f32, a, b, c, d]).collect();
            self.add(&pyramid, (&rois, &levels), &labels, with_gradient, &mut all)?;
        }
        Ok(all)
    }

    /// Evaluates some boxes, all at once.
    fn add(
        &self,
        pyramid: &Pyramid<'_, f32>,
        (rois, levels): (&[f32], &[usize]),
        labels: &[u32],
        with_gradient: bool,
        all: &mut Evaluated,
    ) -> Result<()> {
        let workspace = &self.workspace;
        let rows = labels.iter().map(|&label| self.row(label)).collect::<Result<Vec<_>>>()?;
        let mut pooled = workspace.take(labels.len() * pyramid.tile_len());
        pyramid.pool(rois, levels, &mut pooled)?;
        let [fc6, fc7] = &self.layers;
        let hidden = fc6.forward(&pooled, true, workspace)?;
        let output = fc7.forward(&hidden, true, workspace)?;
        workspace.give(pooled);
        let width = fc7.outputs();
        for (output, (weight, bias)) in output.chunks_exact(width).zip(&rows) {
            all.f.push(bias + dot(output, weight));
        }
        if with_gradient {
            let mut gradient = workspace.take(labels.len() * width);
            for (to, (weight, _)) in gradient.chunks_exact_mut(width).zip(&rows) {
                to.copy_from_slice(weight);
            }
            let in_hidden = fc7.input_gradient(&gradient, Some(&output), workspace)?;
            let in_pooled = fc6.input_gradient(&in_hidden, Some(&hidden), workspace)?;
            all.gradient.extend(pyramid.backward_rois(rois, levels, &in_pooled)?);
            [gradient, in_hidden, in_pooled].into_iter().for_each(|buffer| workspace.give(buffer));
        }
        [hidden, output].into_iter().for_each(|buffer| workspace.give(buffer));
        Ok(())
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
        Ok(Tensor::from_vec(self.evaluate(features, y, false)?.f, (b, m), y.device())?)
    }

    /// f, `(B, M)`, and its gradient in `y (B, M, 4)`.
    pub fn f_and_gradient(&self, features: &BoxFeatures, y: &Tensor) -> Result<(Tensor, Tensor)> {
        let (b, m, _) = y.dims3()?;
        let Evaluated { f, gradient } = self.evaluate(features, y, true)?;
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
