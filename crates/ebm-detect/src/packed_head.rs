//! The confidence branch without a graph: f and its gradient in the box, on the CPU in f32.
//!
//! Pooled boxes keep the order in which they are made, bins outside and channels innermost; fc6's columns were put in that
//! order when they were packed. Of the last layer, the row of the class in question alone is read.

use candle_core::{Storage, Tensor};
use ebm_core::EnergyModel;
use ebm_nn::ops::{ChannelsLast, PackedLinear, Workspace, prroi_pool::Pyramid};

use crate::{
    energy_head::{BoxFeatures, unknown_class},
    error::Result,
    pooler::Pooler,
};

/// Most boxes whose activations are held at a time.
const BOXES: usize = 448;

/// [`TwoMlpHead`](crate::box_head::TwoMlpHead) for inference.
pub struct PackedTwoMlpHead {
    fc6: PackedLinear,
    fc7: PackedLinear,
}

impl PackedTwoMlpHead {
    /// The layers as [`TwoMlpHead::pack`](crate::box_head::TwoMlpHead::pack) makes them.
    pub fn new(fc6: PackedLinear, fc7: PackedLinear) -> Self {
        Self { fc6, fc7 }
    }

    /// Pooled boxes `(R, bins, C)` → the outputs of both layers, `(R, representation)` each.
    pub fn activations(&self, pooled: &[f32], workspace: &Workspace) -> Result<[Vec<f32>; 2]> {
        let hidden = self.fc6.forward(pooled, true, workspace)?;
        let output = self.fc7.forward(&hidden, true, workspace)?;
        Ok([hidden, output])
    }

    /// The gradient in the pooled boxes, `(R, bins, C)`, given the one in the output `(R, representation)`.
    pub fn input_gradient(
        &self,
        [hidden, output]: &[Vec<f32>; 2],
        gradient: &[f32],
        workspace: &Workspace,
    ) -> Result<Vec<f32>> {
        let inner = self.fc7.input_gradient(gradient, Some(output), workspace)?;
        let result = self.fc6.input_gradient(&inner, Some(hidden), workspace);
        workspace.give(inner);
        Ok(result?)
    }
}

/// [`EnergyHead`](crate::EnergyHead) for inference on the CPU in f32, with its parameters at the time of packing.
pub struct PackedEnergyHead {
    pooler: Pooler,
    trunk: PackedTwoMlpHead,
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

impl PackedEnergyHead {
    /// The branch's parts; `weight (K, representation)` and `bias (K)` are the last layer's.
    pub fn new(pooler: Pooler, trunk: PackedTwoMlpHead, weight: &Tensor, bias: &Tensor) -> Result<Self> {
        let (weight, bias) = (weight.to_vec2()?, bias.to_vec1()?);
        Ok(Self { pooler, trunk, weight, bias, workspace: Workspace::new() })
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
        let activations = self.trunk.activations(&pooled, workspace)?;
        workspace.give(pooled);
        let width = activations[1].len() / labels.len();
        for (hidden, (weight, bias)) in activations[1].chunks_exact(width).zip(&rows) {
            all.f.push(bias + dot(hidden, weight));
        }
        if with_gradient {
            let mut gradient = workspace.take(labels.len() * width);
            for (to, (weight, _)) in gradient.chunks_exact_mut(width).zip(&rows) {
                to.copy_from_slice(weight);
            }
            let in_pooled = self.trunk.input_gradient(&activations, &gradient, workspace)?;
            all.gradient.extend(pyramid.backward_rois(rois, levels, &in_pooled)?);
            workspace.give(gradient);
            workspace.give(in_pooled);
        }
        activations.into_iter().for_each(|buffer| workspace.give(buffer));
        Ok(())
    }

    /// The last layer's weights and bias for a class.
    fn row(&self, label: u32) -> Result<(&[f32], f32)> {
        match (self.weight.get(label as usize), self.bias.get(label as usize)) {
            (Some(weight), Some(bias)) => Ok((weight, *bias)),
            _ => Err(unknown_class(label, self.bias.len())),
        }
    }

    fn f(&self, features: &BoxFeatures, y: &Tensor) -> Result<Tensor> {
        let (b, m, _) = y.dims3()?;
        Ok(Tensor::from_vec(self.evaluate(features, y, false)?.f, (b, m), y.device())?)
    }

    fn f_and_gradient(&self, features: &BoxFeatures, y: &Tensor) -> Result<(Tensor, Tensor)> {
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

impl EnergyModel for PackedEnergyHead {
    type Features = BoxFeatures;

    fn score(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        self.f(features, y).map_err(ebm_core::Error::model)
    }

    fn score_and_grad(&self, features: &BoxFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        self.f_and_gradient(features, y).map_err(ebm_core::Error::model)
    }
}
