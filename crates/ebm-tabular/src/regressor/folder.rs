//! The folder of a fit.

use std::path::Path;

use ebm_base::Key;
use ebm_data::fetch::sha256_of;
use ebm_experiment::config::Settings;
use ebm_nn::params::ParamStore;

use super::{Fitted, TabularRegressor, build};
use crate::config::TabularConfig;
use crate::model::{Network, Shape};
use crate::target::Target;
use crate::{Error, Result};

impl TabularRegressor {
    /// Writes the fit into the existing folder `run`: `regressor.json`, `tabular.toml` and a file of weights for each
    /// network.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn save(&self, run: &Path) -> Result<()> {
        for (index, store) in self.stores.iter().enumerate() {
            store.save(&run.join(member_file(index)))?;
        }
        ebm_data::files::write_atomic(&run.join(SETTINGS), self.config.to_toml()?.as_bytes())?;
        let mut fitted = self.fitted.clone();
        for name in (0..self.stores.len()).map(member_file).chain([SETTINGS.to_owned()]) {
            fitted.files.insert(name.clone(), sha256_of(&run.join(name))?);
        }
        let path = run.join(FITTED);
        let fail = |reason: String| Error::input(path.display(), reason);
        let text = serde_json::to_vec_pretty(&fitted).map_err(|error| fail(error.to_string()))?;
        if text.len() as u64 > MAX_FITTED {
            return Err(fail(format!("{} bytes are too many; give fewer columns or categories", text.len())));
        }
        Ok(ebm_data::files::write_atomic(&path, &text)?)
    }

    /// Loads a fit that [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`Error::Input`] for a folder without a fit.
    pub fn open(run: &Path) -> Result<Self> {
        let path = run.join(FITTED);
        let fail = |reason: String| Error::input(path.display(), reason);
        let text = ebm_data::files::read_limited(&path, MAX_FITTED)
            .map_err(|error| fail(format!("{error}; give the folder of a run of `ebm fit`")))?;
        let mut fitted: Fitted = serde_json::from_slice(&text)
            .map_err(|error| fail(format!("not what this version's `ebm fit` writes: {error}; fit again")))?;
        for (name, hash) in std::mem::take(&mut fitted.files) {
            let place = run.join(name);
            if sha256_of(&place).map_err(|error| Error::input(place.display(), error))? != hash {
                let reason = "it is not the file that this fit wrote; put that back, or fit again";
                return Err(Error::input(place.display(), reason));
            }
        }
        let config = TabularConfig::read(&run.join(SETTINGS))?;
        let are_scales = fitted.targets.iter().all(Target::is_scale);
        if fitted.masses.len() != fitted.targets.len() || fitted.targets.is_empty() || !are_scales {
            return Err(fail("its targets and its calibration do not fit together".to_owned()));
        }
        let method = build(&config, &fitted.method, &fitted.targets, Key::new(fitted.seed))?;
        let (features, dim) = (&fitted.features, fitted.targets.len());
        let shape = Shape { features, dim, network: &config.network, method: &method };
        let stores = (0..config.members).map(|index| {
            let path = run.join(member_file(index));
            let tensors = ebm_nn::import::load(&path, &candle_core::Device::Cpu)?;
            let built = ParamStore::build(&tensors, |store| Network::new(&shape, store));
            let refuse = |reason| Error::input(path.display(), format!("it holds another network: {reason}"));
            Ok(built.map_err(refuse)?.1)
        });
        let stores = stores.collect::<Result<Vec<_>>>()?;
        Self::assemble(config, fitted, stores)
    }
}

/// Largest size in bytes of the description of a fit.
const MAX_FITTED: u64 = 64 << 20;

/// Files of a run.
const FITTED: &str = "regressor.json";
const SETTINGS: &str = "tabular.toml";

fn member_file(index: usize) -> String {
    format!("member-{index}.safetensors")
}
