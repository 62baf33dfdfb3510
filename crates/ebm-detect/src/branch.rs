//! Branch: the layers that a method of Table 2 adds to the frozen detector.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::parametric::Baseline;
use ebm_nn::params::ParamStore;

use crate::{
    Result, config::DetectorConfig, energy_head::EnergyHead, parametric_head::ParametricHead,
    weights::WeightFile,
};

/// Layers that a method adds to the frozen detector. Only these are trained.
pub enum Branch {
    /// Density that replaces the box regression.
    Density(ParametricHead),
    /// Confidence that boxes are refined by.
    Confidence(EnergyHead),
}

impl Branch {
    /// Creates trainable layers: for `density`, or for a confidence if it is `None`. `detector` holds the detector's
    /// parameters, which a confidence starts from.
    ///
    /// # Errors
    /// When `detector` has another architecture.
    pub fn new(
        density: Option<&Baseline>,
        config: &DetectorConfig,
        detector: &BTreeMap<String, Tensor>,
        device: &Device,
        key: Key,
    ) -> Result<(Self, ParamStore)> {
        let store = ParamStore::new(key);
        if density.is_none() {
            // fc6 and fc7 start from the detector's box head, as in the paper.
            let mlp = detector.iter().filter_map(|(name, tensor)| {
                let layer = name.strip_prefix("roi_heads.box_head.")?;
                Some((format!("roi_heads.energy_head.{layer}"), tensor.clone()))
            });
            store.preload(mlp.collect());
        }
        Ok((Self::of_store(density, config, &store, device)?, store))
    }

    /// Loads the layers saved in `file`, frozen, for a detector with the configuration `config`.
    ///
    /// # Errors
    /// When the file belongs to another method or architecture.
    pub fn load(density: Option<&Baseline>, config: &DetectorConfig, file: &WeightFile) -> Result<Self> {
        file.build(config, |store| Self::of_store(density, config, store, &file.device))
    }

    /// Builds the layers from the parameters of `store`; prediction uses [constants](ParamStore::constants).
    ///
    /// # Errors
    /// When the parameters belong to another method or architecture.
    pub fn of_store(
        density: Option<&Baseline>,
        config: &DetectorConfig,
        store: &ParamStore,
        device: &Device,
    ) -> Result<Self> {
        let parameters = store.var_builder(DType::F32, device).pp("roi_heads");
        Ok(match density {
            None => Self::Confidence(EnergyHead::new(config, parameters)?),
            Some(density) => Self::Density(ParametricHead::new(density, config, parameters)?),
        })
    }
}
