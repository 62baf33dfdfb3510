//! The module without a graph: f and its gradient in the box, on the CPU in f32.
//!
//! Normalisations are folded into the weights, maps have the channels innermost, and pooled boxes keep the order in which
//! they are made; the layers' columns were put in that order when they were packed.

use candle_core::{Device, Storage, Tensor};
use ebm_core::{EnergyModel, TargetSpace};
use ebm_nn::ops::prroi_pool::Pyramid;
use ebm_nn::ops::{ChannelsLast, PackedConv2d, PackedLinear, Workspace};

use super::features::{Modulation, TargetFeatures, TestFeatures, corners};
use super::network::rois;
use super::{BoxModule, BoxModuleConfig, BoxNetwork, SCALES};
use crate::{BackboneFeatures, Error, Result};

/// [`BoxModule`] for inference on the CPU in f32, with its parameters at the time of packing.
pub struct PackedBoxModule {
    config: BoxModuleConfig,
    reference: [PackedConv2d; 2],
    fc3: PackedConv2d,
    vectors: [PackedConv2d; 2],
    test: [[PackedConv2d; 2]; 2],
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

impl PackedBoxModule {
    /// The module with its present parameters.
    ///
    /// # Errors
    /// When they are not on the CPU in f32.
    pub fn new(module: &BoxModule) -> Result<Self> {
        let BoxModule { config, reference, test, of_box, weight, bias } = module;
        let pair = |[a, b]: &[super::layers::ConvBlock; 2]| Ok::<_, Error>([a.pack()?, b.pack()?]);
        let bins = config.pool.map(|bins| bins * bins);
        let weight: Vec<f32> = weight.flatten_all()?.to_vec1()?;
        let (third, fourth) = weight.split_at(config.pred_inter[0]);
        let packed = Self {
            reference: pair(&reference.convs)?,
            fc3: reference.fc3.pack()?,
            vectors: pair(&reference.vectors)?,
            test: [pair(&test[0])?, pair(&test[1])?],
            of_box: [of_box[0].pack(bins[0])?, of_box[1].pack(bins[1])?],
            weight: [third.to_vec(), fourth.to_vec()],
            bias: bias.get(0)?.to_scalar()?,
            config: config.clone(),
            workspace: Workspace::new(),
        };
        Ok(packed)
    }

    fn describe_reference(&self, reference: &BackboneFeatures, boxes: &Tensor) -> Result<Modulation> {
        let workspace = &self.workspace;
        let rois = rois(&corners(boxes)?.unsqueeze(1)?, reference.images()?)?;
        let rois: Vec<f32> = rois.flatten_all()?.to_vec1()?;
        let pool = |map: usize| -> Result<Vec<f32>> {
            let features = with_map(reference.maps()[map], |features| {
                Ok(self.reference[map].forward(features, None, true, workspace)?)
            })?;
            let bins = self.config.reference_pool[map];
            let pyramid = Pyramid::new(vec![(features, SCALES[map])], (bins, bins))?;
            let mut pooled = vec![0.0; rois.len() / 5 * pyramid.tile_len()];
            pyramid.pool(&rois, &vec![0; rois.len() / 5], &mut pooled)?;
            Ok(pooled)
        };
        let (targets, bins) = (rois.len() / 5, self.config.reference_pool);
        let patch = ChannelsLast::new(pool(0)?, (targets, self.config.reference, bins[0], bins[0]))?;
        let third = self.fc3.forward(&patch, None, true, workspace)?;
        let fourth = pool(1)?;
        let (hidden, area) = (self.config.hidden, bins[1] * bins[1]);
        // Channels outside, as the layers that follow number them.
        let both: Vec<f32> = (third.data().chunks_exact(hidden).zip(fourth.chunks_exact(hidden * area)))
            .flat_map(|(third, fourth)| {
                let turned = (0..hidden * area).map(move |i| fourth[i % area * hidden + i / area]);
                third.iter().copied().chain(turned)
            })
            .collect();
        let both = ChannelsLast::new(both, (targets, hidden + hidden * area, 1, 1))?;
        let vector = |map: usize| -> Result<Tensor> {
            let vector = self.vectors[map].forward(&both, None, true, workspace)?;
            let shape = (targets, self.config.pred_input[map]);
            Ok(Tensor::from_slice(vector.data(), shape, &Device::Cpu)?)
        };
        Ok(Modulation { vectors: [vector(0)?, vector(1)?] })
    }

    fn describe_test(&self, test: &BackboneFeatures, modulation: &Modulation) -> Result<TestFeatures> {
        let map = |map: usize| -> Result<Tensor> {
            let [first, second] = &self.test[map];
            let inner = with_map(test.maps()[map], |features| {
                Ok(first.forward(features, None, true, &self.workspace)?)
            })?;
            let features = second.forward(&inner, None, true, &self.workspace)?;
            self.workspace.recycle(inner);
            let (crops, channels, height, width) = features.shape();
            let vectors = modulation.vectors[map].to_vec2::<f32>()?;
            if vectors.len() != crops && vectors.len() != 1 {
                let reason = format!("{} targets are described, and there are {crops} crops", vectors.len());
                return Err(Error::Config { part: "box module", reason });
            }
            let mut data = features.into_data().into_owned();
            let vectors = vectors.iter().cycle();
            for (crop, vector) in data.chunks_exact_mut(channels * height * width).zip(vectors) {
                for pixel in crop.chunks_exact_mut(channels) {
                    pixel.iter_mut().zip(vector).for_each(|(value, factor)| *value *= factor);
                }
            }
            Ok(ChannelsLast::new(data, (crops, channels, height, width))?.into_tensor()?)
        };
        Ok(TestFeatures { maps: [map(0)?, map(1)?] })
    }

    /// Boxes whose corners are not finite get a NaN for f, and no gradient.
    fn evaluate(&self, features: &TestFeatures, corners: &Tensor, with_gradient: bool) -> Result<Evaluated> {
        let mut rois: Vec<f32> =
            rois(&corners.detach(), features.maps[0].dim(0)?)?.flatten_all()?.to_vec1()?;
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
            with_map(&features.maps[map], |features| self.add(map, features, &rois, &mut all))?;
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
        let bins = self.config.pool[map];
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
        _ => {
            let reason = "a packed module reads features on the CPU".to_owned();
            Err(Error::Config { part: "box module", reason })
        }
    }
}

impl BoxNetwork for PackedBoxModule {
    fn modulation(&self, reference: &BackboneFeatures, boxes: &Tensor) -> Result<Modulation> {
        self.describe_reference(reference, boxes)
    }

    fn test_features(&self, test: &BackboneFeatures, modulation: &Modulation) -> Result<TestFeatures> {
        self.describe_test(test, modulation)
    }

    fn corner_scores(&self, features: &TestFeatures, corners: &Tensor) -> Result<Tensor> {
        let (batch, count, _) = corners.dims3()?;
        let f = self.evaluate(features, corners, false)?.f;
        Ok(Tensor::from_vec(f, (batch, count), &Device::Cpu)?)
    }

    fn corner_gradients(&self, features: &TestFeatures, corners: &Tensor) -> Result<(Tensor, Tensor)> {
        let (batch, count, _) = corners.dims3()?;
        let Evaluated { f, gradient } = self.evaluate(features, corners, true)?;
        let gradient = Tensor::from_slice(gradient.as_flattened(), (batch, count, 4), &Device::Cpu)?;
        Ok((Tensor::from_vec(f, (batch, count), &Device::Cpu)?, gradient))
    }
}

impl EnergyModel for PackedBoxModule {
    type Features = TargetFeatures;

    fn score(&self, features: &TargetFeatures, y: &Tensor) -> ebm_core::Result<Tensor> {
        let corners = features.space().decode(&y.detach())?;
        self.corner_scores(features.test(), &corners).map_err(ebm_core::Error::model)
    }

    fn score_and_grad(&self, features: &TargetFeatures, y: &Tensor) -> ebm_core::Result<(Tensor, Tensor)> {
        let y = y.detach();
        let corners = features.space().decode(&y)?;
        let (f, gradient) =
            self.corner_gradients(features.test(), &corners).map_err(ebm_core::Error::model)?;
        Ok((f, features.space().decode_gradient(&y, &gradient)?))
    }

    fn quality(&self, features: &TargetFeatures, y: &Tensor, y_i: &Tensor) -> ebm_core::Result<Tensor> {
        features.overlap(y, y_i)
    }
}
