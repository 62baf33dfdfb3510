//! Modules from weight files.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use ebm_nn::import;
use ebm_nn::params::ParamStore;
use ebm_seed::Key;

use super::{BoxModule, BoxModuleConfig};
use crate::{Error, Result};

/// What the names of a whole tracker's checkpoint begin with.
const PREFIX: &str = "bb_regressor.";

impl BoxModule {
    /// The module in the weight file at `path`, frozen: safetensors or torch's `.pth`, whose names may begin
    /// with `bb_regressor.`; what else such a file holds is left out. The sizes are told from the shapes.
    ///
    /// # Errors
    /// [`Error::Weights`] when a name is missing or surplus or a shape fits no module; else when the file
    /// cannot be read.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::of_file(path, import::load(path, device)?, device)
    }

    /// [`load`](Self::load) of the tensors of the file at `path`.
    pub(crate) fn of_file(
        path: &Path,
        mut tensors: BTreeMap<String, Tensor>,
        device: &Device,
    ) -> Result<Self> {
        if tensors.keys().any(|name| name.starts_with(PREFIX)) {
            tensors = import::rename(tensors, |name| name.strip_prefix(PREFIX).map(str::to_owned))?;
        }
        Self::of_tensors(tensors, device).map_err(|reason| Error::weights(path, reason))
    }

    fn of_tensors(tensors: BTreeMap<String, Tensor>, device: &Device) -> std::result::Result<Self, String> {
        let config = examine(&tensors).ok_or(
            "not a box module: conv3_1r, conv4_1r, fc3_1r, fc34_3r, conv3_1t, conv3_2t, conv4_2t, fc3_rt and fc4_rt \
             must be there with fitting shapes",
        )?;
        let store = ParamStore::new(Key::new(0));
        store.freeze(|_| true);
        store.preload(tensors);
        let module = Self::new(&config, store.var_builder(DType::F32, device));
        let module = module.map_err(|error| error.to_string())?;
        let report = store.preload_report();
        if report.is_exact() { Ok(module) } else { Err(format!("not a box module {config:?}: {report}")) }
    }
}

/// The sizes of the module whose tensors these are.
fn examine(tensors: &BTreeMap<String, Tensor>) -> Option<BoxModuleConfig> {
    let conv = |name: &str| match tensors.get(&format!("{name}.0.weight"))?.dims() {
        &[output, input, kernel, _] if output > 0 && input > 0 => Some((output, input, kernel)),
        _ => None,
    };
    let (reference, third, _) = conv("conv3_1r")?;
    let (hidden, _, _) = conv("conv3_1t")?;
    let pred_input = [conv("conv3_2t")?.0, conv("conv4_2t")?.0];
    let bins = |values: usize, channels: usize| (values / channels).isqrt();
    let of_box = |name: &str, map: usize| match tensors.get(&format!("{name}.linear.weight"))?.dims() {
        &[output, input] => Some((output, bins(input, pred_input[map]))),
        _ => None,
    };
    let ((inter3, pool3), (inter4, pool4)) = (of_box("fc3_rt", 0)?, of_box("fc4_rt", 1)?);
    Some(BoxModuleConfig {
        backbone: [third, conv("conv4_1r")?.1],
        reference,
        hidden,
        pred_input,
        pred_inter: [inter3, inter4],
        reference_pool: [conv("fc3_1r")?.2, bins(conv("fc34_3r")?.1.checked_sub(hidden)?, hidden)],
        pool: [pool3, pool4],
    })
}
