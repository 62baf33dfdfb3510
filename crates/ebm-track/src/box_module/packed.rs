//! f of boxes and its gradient in them without a graph, on the CPU in f32.
//!
//! Normalisations are folded into the weights, and pooled boxes keep the order in which they are made, the
//! channels innermost; the layers' columns were put in that order when they were packed.

use candle_core::{Device, Storage, Tensor};
use ebm_ops::Workspace;
use ebm_ops::nhwc::ChannelsLast;
use ebm_ops::nn::PackedLinear;
use ebm_ops::roi::Pyramid;

use super::features::TestFeatures;
use super::network::rois;
use super::{BoxModule, SCALES};
use crate::{Error, Result};

/// What a [`BoxModule`] prepares of constant parameters: the layers that describe a box.
#[derive(Debug)]
pub(super) struct PackedBoxLayers {
    /// Bins a side of the pooling, for each map.
    bins: [usize; 2],
    of_box: [PackedLinear; 2],
    /// The last layer's weights, for each map.
    weight: [Vec<f32>; 2],
    bias: f32,
    workspace: Workspace,
}

/// f of some boxes, and where it is wanted its gradient in their corners.
struct Evaluated {
    f: Vec<f32>,
    gradient: Vec<[f32; 4]>,
}

impl PackedBoxLayers {
    /// Those of the module's present parameters.
    pub(super) fn new(module: &BoxModule) -> Result<Self> {
        let BoxModule { config, of_box, weight, bias, .. } = module;
        let weight: Vec<f32> = weight.flatten_all()?.to_vec1()?;
        let (third, fourth) = weight.split_at(config.pred_inter[0]);
        let pack = |map: usize| of_box[map].pack(config.pool[map] * config.pool[map]);
        Ok(Self {
            bins: config.pool,
            of_box: [pack(0)?, pack(1)?],
            weight: [third.to_vec(), fourth.to_vec()],
            bias: bias.get(0)?.to_scalar()?,
            workspace: Workspace::new(),
        })
    }

    /// f, `(B, M)`, of boxes with the corners `(B, M, 4)`.
    pub(super) fn scores(&self, features: &TestFeatures, corners: &Tensor) -> Result<Tensor> {
        let (batch, count, _) = corners.dims3()?;
        let f = self.evaluate(features, corners, false)?.f;
        Ok(Tensor::from_vec(f, (batch, count), &Device::Cpu)?)
    }

    /// f, and its gradient in the corners, `(B, M, 4)`.
    pub(super) fn gradients(&self, features: &TestFeatures, corners: &Tensor) -> Result<(Tensor, Tensor)> {
        let (batch, count, _) = corners.dims3()?;
        let Evaluated { f, gradient } = self.evaluate(features, corners, true)?;
        let gradient = Tensor::from_slice(gradient.as_flattened(), (batch, count, 4), &Device::Cpu)?;
        Ok((Tensor::from_vec(f, (batch, count), &Device::Cpu)?, gradient))
    }

    /// Boxes whose corners are not finite get a NaN for f, and no gradient.
    fn evaluate(&self, features: &TestFeatures, corners: &Tensor, with_gradient: bool) -> Result<Evaluated> {
        let mut rois: Vec<f32> = rois(&corners.detach(), features.0[0].dim(0)?)?.flatten_all()?.to_vec1()?;
        let count = rois.len() / 5;
        let lost: Vec<usize> = (0..count)
            .filter(|row| rois[row * 5..][..5].iter().any(|coordinate| !coordinate.is_finite()))
            .collect();
        lost.iter().for_each(|row| rois[row * 5 + 1..][..4].fill(0.0));
        let mut all = Evaluated {
            f: vec![self.bias; count],
            gradient: vec![[0.0; 4]; if with_gradient { count } else { 0 }],
        };
        for map in 0..2 {
            with_map(&features.0[map], |features| self.add(map, features, &rois, &mut all))?;
        }
        for row in lost {
            all.f[row] = f32::NAN;
        }
        Ok(all)
    }

    /// Adds what one map contributes.
    fn add(
        &self,
        map: usize,
        features: &ChannelsLast<'_, f32>,
        rois: &[f32],
        all: &mut Evaluated,
    ) -> Result<()> {
        let (workspace, layer, weight) = (&self.workspace, &self.of_box[map], &self.weight[map]);
        let bins = self.bins[map];
        let level = ChannelsLast::new(features.data(), features.shape())?;
        let pyramid = Pyramid::new(vec![(level, SCALES[map])], (bins, bins))?;
        let levels = vec![0; all.f.len()];
        let mut pooled = workspace.take(all.f.len() * pyramid.tile_len());
        pyramid.pool(rois, &levels, &mut pooled)?;
        let hidden = layer.forward(&pooled, true, workspace)?;
        workspace.give(pooled);
        for (f, hidden) in all.f.iter_mut().zip(hidden.chunks_exact(weight.len())) {
            *f += hidden.iter().zip(weight).map(|(hidden, weight)| hidden * weight).sum::<f32>();
        }
        if !all.gradient.is_empty() {
            let mut of_hidden = workspace.take(hidden.len());
            of_hidden.chunks_exact_mut(weight.len()).for_each(|row| row.copy_from_slice(weight));
            let of_pooled = layer.input_gradient(&of_hidden, Some(&hidden), workspace)?;
            let of_boxes = pyramid.backward_rois(rois, &levels, &of_pooled)?;
            for (sum, part) in all.gradient.as_flattened_mut().iter_mut().zip(of_boxes.as_flattened()) {
                *sum += part;
            }
            workspace.give(of_hidden);
            workspace.give(of_pooled);
        }
        workspace.give(hidden);
        Ok(())
    }
}

/// `f` of a map on the CPU, in place where its channels are innermost.
fn with_map<T>(map: &Tensor, f: impl FnOnce(&ChannelsLast<'_, f32>) -> Result<T>) -> Result<T> {
    let (storage, layout) = map.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(&ChannelsLast::of_storage(storage, layout)?),
        _ => Err(Error::config("of the box module", "a packed module reads features on the CPU")),
    }
}
