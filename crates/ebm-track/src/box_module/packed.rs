//! f of boxes and its gradient in the boxes without a graph, on the CPU in f32.
//!
//! Normalisations are folded into the weights. Pooled boxes have the channels innermost, and packing reorders the
//! columns of the layers to match.

use candle_core::{Device, Storage, Tensor};
use ebm_ops::Workspace;
use ebm_ops::nhwc::ChannelsLast;
use ebm_ops::nn::PackedLinear;
use ebm_ops::roi::Pyramid;

use super::features::TestFeatures;
use super::network::rois;
use super::{BoxModule, SCALES};
use crate::{Error, Result};

/// Packed layers on pooled boxes, which a [`BoxModule`] prepares from constant parameters.
#[derive(Debug)]
pub(super) struct PackedBoxLayers {
    /// Bins along each side in the pooling of each map.
    bins: [usize; 2],
    of_box: [PackedLinear; 2],
    /// Weights of the last layer, for each map.
    weight: [Vec<f32>; 2],
    bias: f32,
    workspace: Workspace,
}

impl PackedBoxLayers {
    /// Packs the present parameters of the module.
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

    /// Computes f `(B, M)` of boxes with the corners `(B, M, 4)`, and its gradient in the corners. The gradient is 0
    /// without `with_gradient`. A box whose corners are not finite gets NaN as f and a gradient of 0.
    pub(super) fn evaluate(
        &self,
        features: &TestFeatures,
        corners: &Tensor,
        with_gradient: bool,
    ) -> Result<(Tensor, Tensor)> {
        let (batch, boxes, _) = corners.dims3()?;
        let mut rois: Vec<f32> = rois(&corners.detach(), features.0[0].dim(0)?)?.flatten_all()?.to_vec1()?;
        let count = batch * boxes;
        let lost: Vec<usize> = (0..count)
            .filter(|row| rois[row * 5..][..5].iter().any(|coordinate| !coordinate.is_finite()))
            .collect();
        lost.iter().for_each(|row| rois[row * 5 + 1..][..4].fill(0.0));
        let (mut f, mut gradient) = (vec![self.bias; count], vec![[0.0; 4]; count]);
        for (map, features) in features.0.iter().enumerate() {
            let gradient = with_gradient.then_some(gradient.as_mut_slice());
            with_map(features, |features| self.add(map, features, &rois, &mut f, gradient))?;
        }
        for row in lost {
            f[row] = f32::NAN;
        }
        let gradient = Tensor::from_slice(gradient.as_flattened(), (batch, boxes, 4), &Device::Cpu)?;
        Ok((Tensor::from_vec(f, (batch, boxes), &Device::Cpu)?, gradient))
    }

    /// Adds the contribution of one map to f and to the gradient.
    fn add(
        &self,
        map: usize,
        features: &ChannelsLast<'_, f32>,
        rois: &[f32],
        f: &mut [f32],
        gradient: Option<&mut [[f32; 4]]>,
    ) -> Result<()> {
        let (workspace, layer, weight) = (&self.workspace, &self.of_box[map], &self.weight[map]);
        let bins = self.bins[map];
        let level = ChannelsLast::new(features.data(), features.shape())?;
        let pyramid = Pyramid::new(vec![(level, SCALES[map])], (bins, bins))?;
        let levels = vec![0; f.len()];
        let mut pooled = workspace.take(f.len() * pyramid.tile_len());
        pyramid.pool(rois, &levels, &mut pooled)?;
        let hidden = layer.forward(&pooled, true, workspace)?;
        workspace.give(pooled);
        for (f, hidden) in f.iter_mut().zip(hidden.chunks_exact(weight.len())) {
            *f += hidden.iter().zip(weight).map(|(hidden, weight)| hidden * weight).sum::<f32>();
        }
        if let Some(gradient) = gradient {
            let mut of_hidden = workspace.take(hidden.len());
            of_hidden.chunks_exact_mut(weight.len()).for_each(|row| row.copy_from_slice(weight));
            let of_pooled = layer.input_gradient(&of_hidden, Some(&hidden), workspace)?;
            let of_boxes = pyramid.backward_rois(rois, &levels, &of_pooled)?;
            for (sum, part) in gradient.as_flattened_mut().iter_mut().zip(of_boxes.as_flattened()) {
                *sum += part;
            }
            workspace.give(of_hidden);
            workspace.give(of_pooled);
        }
        workspace.give(hidden);
        Ok(())
    }
}

/// Calls `f` with a map on the CPU, without a copy if its channels are innermost.
fn with_map<T>(map: &Tensor, f: impl FnOnce(&ChannelsLast<'_, f32>) -> Result<T>) -> Result<T> {
    let (storage, layout) = map.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(&ChannelsLast::of_storage(storage, layout)?),
        _ => Err(Error::config("of the box module", "a packed module reads features on the CPU")),
    }
}
