//! Densities that replace Faster-RCNN's box regression in Table 2 (supplement, "Laplace/Gaussian").
//!
//! They model the box coder's offset from a proposal to its object, given the features of the frozen box head
//! (Feat-Box). Only their own layers are trained.
//!
//! | method | layers, each fully connected |
//! |---|---|
//! | Gaussian, Laplace | FC-BBMean and FC-BBVar: 4 numbers per class |
//! | mixture of K | both K times, and one of K weights |
//! | cVAE | FC-BBMean and FC-BBVar of z, their duplicates that also take z, and q(z given x, y) |
//!
//! The supplement names no network for the cVAE's q(z | x, y); here it is one more layer, which also takes the
//! offset.

use std::borrow::Borrow;

use candle_core::{DType, Tensor};
use candle_nn::{Init, VarBuilder};
use ebm_core::parametric::{Baseline, ConditionalVae, LatentVariableModel, Parametric};
use rand::RngCore;

use crate::box_head::{Pair, ScoredProposals};
use crate::config::DetectorConfig;
use crate::layers::{Linear, rows_of_four};
use crate::matcher::{BalancedSampler, Match};
use crate::{Error, Result};

const DIM: usize = 4;
const INIT: Init = Init::Randn { mean: 0.0, stdev: 0.001 };

/// Head with a density over the offset of each class from a proposal; its parameters are under `box_density`.
pub struct ParametricHead {
    density: Baseline,
    /// Layer of the means of each class's K components; K is 1 except for a mixture.
    mean: Linear,
    log_variance: Linear,
    components: usize,
    /// Layer of the components' weights; `None` if K is 1.
    weights: Option<Linear>,
    /// Additional layers of the cVAE.
    latent: Option<Latent>,
}

struct Latent {
    model: ConditionalVae,
    prior: Linear,
    posterior: Linear,
    /// Weights of z in the mean and the log-variance, `(K, Z · 8)`, one row per class.
    from_z: Tensor,
}

/// Features of some proposals (Feat-Box), each with a class.
struct ClassFeatures<'a> {
    /// Features, `(R, representation)`.
    hidden: &'a Tensor,
    /// Class of each proposal, at least one.
    labels: &'a [u32],
}

impl ClassFeatures<'_> {
    /// Selects the numbers of each row's own class: `(R, K · n)` → `(R, n)`.
    fn own_class(&self, of_all_classes: &Tensor, n: usize) -> Result<Tensor> {
        let classes = of_all_classes.dim(1)? / n;
        let rows = (0u32..).zip(self.labels).map(|(row, &label)| row * classes as u32 + label);
        let rows = Tensor::from_iter(rows, of_all_classes.device())?;
        Ok(of_all_classes.reshape(((), n))?.index_select(&rows, 0)?)
    }
}

impl ParametricHead {
    /// Creates the layers of `density`, over four coordinates, for `config.num_classes` classes under `vb`. Weights
    /// are drawn from N(0, 0.001²); biases are zero.
    ///
    /// # Errors
    /// [`Error::Config`] for a density over another number of coordinates, or without a mean and a variance for
    /// each; when a parameter has another shape.
    pub fn new(density: &Baseline, config: &DetectorConfig, vb: VarBuilder) -> Result<Self> {
        if density.dim() != DIM {
            let reason = format!("a box has {DIM} offsets, the density {}", density.dim());
            return Err(Error::config("density", reason));
        }
        let (components, model) = match density {
            Baseline::Gaussian(_) | Baseline::Laplace(_) => (1, None),
            Baseline::MixtureOfGaussians(model) => (model.components(), None),
            Baseline::ConditionalVae(model) => (1, Some(model.clone())),
            other => {
                let reason =
                    format!("{other:?} is none of gaussian, laplace, mixture_of_gaussians, conditional_vae");
                return Err(Error::config("density", reason));
            }
        };
        let (width, classes, vb) = (config.roi.representation, config.num_classes, vb.pp("box_density"));
        let layer = |name: &str, input, output: usize| Linear::new(vb.pp(name), input, output, INIT);
        let numbers = components * DIM * classes;
        let latent = |model: ConditionalVae| -> Result<Latent> {
            let z = model.latent_dim();
            Ok(Latent {
                prior: layer("prior", width, 2 * z)?,
                posterior: layer("posterior", width + DIM, 2 * z)?,
                from_z: vb.get_with_hints((classes, z * 2 * DIM), "from_z", INIT)?,
                model,
            })
        };
        Ok(Self {
            density: density.clone(),
            mean: layer("mean", width, numbers)?,
            log_variance: layer("log_variance", width, numbers)?,
            components,
            weights: (components > 1).then(|| layer("weights", width, components)).transpose()?,
            latent: model.map(latent).transpose()?,
        })
    }

    /// Computes the published loss, the mean over the sampled proposals, to which background contributes 0. The
    /// cVAE's z is drawn from `rng`.
    pub fn loss(&self, sample: &Foreground, rng: &mut dyn RngCore) -> Result<Tensor> {
        let device = sample.hidden.device();
        if sample.labels.is_empty() {
            return Ok(Tensor::zeros((), sample.hidden.dtype(), device)?);
        }
        let features = ClassFeatures { hidden: &sample.hidden, labels: &sample.labels };
        let y = &sample.targets;
        let outputs = match &self.latent {
            None => self.outputs(&features)?,
            Some(latent) => latent.model.training_outputs(&OfClass(self, latent, &features), &(), y, rng)?,
        };
        let loss = self.density.loss(&outputs, y)?;
        Ok((loss * (sample.labels.len() as f64 / sample.sample_size as f64))?)
    }

    /// Returns the offset of each pair, which is the mean of its density as in the paper. The cVAE's z is drawn from
    /// `rng`.
    pub fn offsets(&self, scored: &ScoredProposals, rng: &mut dyn RngCore) -> Result<Vec<[f32; 4]>> {
        if scored.pairs.is_empty() {
            return Ok(vec![]);
        }
        let mean = self.density.predict(&self.predicted(scored, &scored.pairs, rng)?)?;
        Ok(mean.flatten_all()?.to_vec1::<f32>()?.as_chunks::<4>().0.to_vec())
    }

    /// Returns the log density of offsets of the pairs at these places, at least one, in nats. The cVAE's z is drawn from
    /// `rng`.
    pub(crate) fn log_prob(
        &self,
        scored: &ScoredProposals,
        offsets: &[(usize, [f32; 4])],
        rng: &mut dyn RngCore,
    ) -> Result<Vec<f64>> {
        let pairs: Vec<Pair> = offsets.iter().map(|(place, _)| scored.pairs[*place]).collect();
        let y: Vec<[f32; 4]> = offsets.iter().map(|(_, offsets)| *offsets).collect();
        let y = rows_of_four(&y, scored.hidden.device())?.unsqueeze(1)?;
        let reason = || Error::config("density", "it has no log density");
        let log_prob =
            self.density.log_prob(&self.predicted(scored, &pairs, rng)?, &y)?.ok_or_else(reason)?;
        Ok(log_prob.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
    }

    /// Returns the parameters of the density of `pairs`, at least one, in the layout of its family.
    fn predicted(&self, scored: &ScoredProposals, pairs: &[Pair], rng: &mut dyn RngCore) -> Result<Tensor> {
        let rows = pairs.iter().map(|pair| pair.row as u32);
        let hidden = scored.hidden.index_select(&Tensor::from_iter(rows, scored.hidden.device())?, 0)?;
        let labels: Vec<u32> = pairs.iter().map(|pair| pair.label as u32).collect();
        let features = &ClassFeatures { hidden: &hidden, labels: &labels };
        match &self.latent {
            None => self.outputs(features),
            Some(latent) => {
                Ok(latent.model.prediction_outputs(&OfClass(self, latent, features), &(), rng)?)
            }
        }
    }

    /// Returns the parameters of the density, `(R, P)`, in the layout of its family.
    fn outputs(&self, features: &ClassFeatures) -> Result<Tensor> {
        let n = self.components * DIM;
        let mean = features.own_class(&self.mean.forward(features.hidden)?, n)?;
        let log_variance = features.own_class(&self.log_variance.forward(features.hidden)?, n)?;
        Ok(match &self.weights {
            Some(weights) => Tensor::cat(&[&weights.forward(features.hidden)?, &mean, &log_variance], 1)?,
            None => Tensor::cat(&[&mean, &log_variance], 1)?,
        })
    }
}

/// Layers of the cVAE, applied to some proposals.
struct OfClass<'a>(&'a ParametricHead, &'a Latent, &'a ClassFeatures<'a>);

impl LatentVariableModel for OfClass<'_> {
    type Features = ();

    fn prior(&self, (): &()) -> ebm_core::Result<Tensor> {
        self.1.prior.forward(self.2.hidden).map_err(ebm_core::Error::model)
    }

    fn posterior(&self, (): &(), y: &Tensor) -> ebm_core::Result<Tensor> {
        let both = Tensor::cat(&[self.2.hidden, y], 1)?;
        self.1.posterior.forward(&both).map_err(ebm_core::Error::model)
    }

    /// Returns mean and log-variance from x, `(R, 1, 8)`, plus z times its weights `(R, Z, 8)`.
    fn decode(&self, (): &(), z: &Tensor) -> ebm_core::Result<Tensor> {
        let Self(head, latent, features) = self;
        let from_x = head.outputs(features).map_err(ebm_core::Error::model)?.unsqueeze(1)?;
        let labels = Tensor::new(features.labels, features.hidden.device())?;
        let from_z = latent.from_z.index_select(&labels, 0)?;
        let from_z = from_z.reshape((features.labels.len(), (), 2 * DIM))?;
        Ok(z.matmul(&from_z)?.broadcast_add(&from_x)?)
    }
}

/// Sampled proposals of objects, each with the offset to its object.
pub struct Foreground {
    /// Features of each proposal (Feat-Box), `(R, representation)`, detached.
    pub hidden: Tensor,
    /// Class of each proposal.
    pub labels: Vec<u32>,
    /// Offsets of the box coder, `(R, 4)`.
    pub targets: Tensor,
    /// Size of the sample that they belong to, including the background.
    pub sample_size: usize,
}

/// All proposals of objects in one image. The detector is frozen, so that they are the same in every epoch.
pub struct ForegroundPool {
    /// Match of every proposal.
    pub(crate) matches: Vec<Match>,
    pub(crate) sampler: BalancedSampler,
    /// Features of the proposals of objects, in their order; `labels` and `targets` likewise.
    pub(crate) hidden: Tensor,
    pub(crate) labels: Vec<u32>,
    pub(crate) targets: Vec<[f32; 4]>,
}

impl ForegroundPool {
    /// Draws a balanced sample of each image, and joins the proposals of objects in them.
    ///
    /// # Errors
    /// When there is no image.
    pub fn sample(pools: &[impl Borrow<Self>], rng: &mut dyn RngCore) -> Result<Foreground> {
        let pools: Vec<&Self> = pools.iter().map(Borrow::borrow).collect();
        let first =
            pools.first().ok_or_else(|| Error::config("training", "a sample of no image was asked for"))?;
        let device = first.hidden.device();
        let (mut hidden, mut labels, mut targets, mut sample_size) = (vec![], vec![], vec![], 0);
        for pool in &pools {
            let (positives, negatives) = pool.sampler.sample(&pool.matches, rng);
            sample_size += positives.len() + negatives.len();
            if positives.is_empty() {
                continue;
            }
            let objects = (0..pool.matches.len()).filter(|&i| matches!(pool.matches[i], Match::Object(_)));
            let objects: Vec<usize> = objects.collect();
            // Both lists are in ascending order.
            let rows: Vec<usize> = positives.iter().filter_map(|i| objects.binary_search(i).ok()).collect();
            labels.extend(rows.iter().map(|&row| pool.labels[row]));
            targets.extend(rows.iter().map(|&row| pool.targets[row]));
            let rows = Tensor::from_iter(rows.iter().map(|&row| row as u32), device)?;
            hidden.push(pool.hidden.index_select(&rows, 0)?);
        }
        let hidden = match hidden.as_slice() {
            [] => first.hidden.narrow(0, 0, 0)?,
            rows => Tensor::cat(rows, 0)?,
        };
        Ok(Foreground { hidden, labels, targets: rows_of_four(&targets, device)?, sample_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};
    use ebm_base::Key;
    use ebm_nn::params::ParamStore;
    use rand::Rng;
    use std::rc::Rc;

    use crate::{
        FasterRcnn, ImageBatch, Objects,
        config::{ExperimentConfig, Settings},
        feature_cache::{BatchOrder, FeatureCache, shuffled},
        training::{BatchSource, CachedSource},
    };

    #[test]
    fn cached_proposals_are_those_of_the_batch() {
        let (config, device) = (ExperimentConfig::embedded("mini").unwrap().detector, Device::Cpu);
        let store = ParamStore::new(Key::new(3));
        let detector = FasterRcnn::new(&config, store.var_builder(DType::F32, &device)).unwrap();
        let mut rng = Key::new(4).rng();
        let noise: Vec<f32> = (0..2 * 3 * 96 * 96).map(|_| rng.random_range(-1.0..1.0)).collect();
        let pixels = Tensor::from_vec(noise, (2, 3, 96, 96), &device).unwrap();
        let images = ImageBatch { pixels, sizes: vec![(96, 96); 2] };
        let objects = vec![
            Objects { boxes: vec![[5., 5., 50., 60.], [40., 30., 90., 80.]], classes: vec![2, 3] },
            Objects { boxes: vec![[10., 20., 70., 80.]], classes: vec![1] },
        ];
        let pyramid = detector.features(&images.pixels, false).unwrap();
        let together = detector.foreground(&pyramid, &images, &objects).unwrap();
        let mut cache = FeatureCache::default();
        cache.push(&pyramid, &images.sizes, objects).unwrap();

        let order = BatchOrder { batch_size: 2, part: 0..2, key: Key::new(5) };
        let chosen = shuffled(2, 7, 2, order.key);
        let mut source = CachedSource::new(Rc::new(cache), order).unwrap();
        let from_cache = source.foreground(7, &detector).unwrap();
        let again = source.foreground(7, &detector).unwrap();
        assert!(from_cache.iter().zip(&again).all(|(a, b)| Rc::ptr_eq(a, b)));
        let from_cache = ForegroundPool::sample(&from_cache, &mut Key::new(6).rng()).unwrap();
        let pools: Vec<&ForegroundPool> = chosen.iter().map(|&i| &together[i]).collect();
        let from_batch = ForegroundPool::sample(&pools, &mut Key::new(6).rng()).unwrap();
        assert!(from_cache.labels.len() >= 3);
        assert_eq!(from_cache.labels, from_batch.labels);
        assert_eq!(from_cache.sample_size, from_batch.sample_size);
        let targets = |sample: &Foreground| sample.targets.to_vec2::<f32>().unwrap();
        assert_eq!(targets(&from_cache), targets(&from_batch));
        let apart = (from_cache.hidden - from_batch.hidden).unwrap().abs().unwrap().max_all().unwrap();
        assert!(apart.to_scalar::<f32>().unwrap() < 1e-4);
    }

    #[test]
    fn every_image_is_drawn_once_in_an_epoch() {
        let mut drawn: Vec<usize> = (0..5).flat_map(|step| shuffled(10, step, 2, Key::new(1))).collect();
        assert_ne!(drawn, (0..10).collect::<Vec<_>>());
        drawn.sort_unstable();
        assert_eq!(drawn, (0..10).collect::<Vec<_>>());
    }
}
