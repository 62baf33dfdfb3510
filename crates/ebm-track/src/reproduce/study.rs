//! What is compared: the methods of Table 3, or the proposals of the supplement's ablation.

use crate::Result;
use crate::config::ExperimentConfig;
use crate::method::MethodConfig;

/// A comparison of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Study {
    /// Table 3.
    #[default]
    Methods,
    /// The supplement's ablation of the standard deviations of Eq. 5, with the energy model.
    Sigma,
}

/// One of those that are compared.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub method: MethodConfig,
    /// Where these are what is compared.
    pub sigmas: Option<Vec<f64>>,
}

impl Study {
    pub(super) fn variants(self, config: &ExperimentConfig) -> Result<Vec<Variant>> {
        let with_sigmas = |sigmas: &Vec<f64>| {
            let method = config.method(ExperimentConfig::ENERGY)?.with_sigmas(sigmas)?;
            Ok(Variant { method, sigmas: Some(sigmas.clone()) })
        };
        match self {
            Self::Methods => {
                let methods = config.methods.iter().cloned();
                Ok(methods.map(|method| Variant { method, sigmas: None }).collect())
            }
            Self::Sigma => config.ablation.iter().map(|row| with_sigmas(&row.sigmas)).collect(),
        }
    }
}

impl Variant {
    /// The name in results, such as `ebm` or `sigma-0.05_0.5`.
    pub fn key(&self) -> String {
        match &self.sigmas {
            None => self.method.key.clone(),
            Some(sigmas) => {
                let sigmas: Vec<String> = sigmas.iter().map(f64::to_string).collect();
                format!("sigma-{}", sigmas.join("_"))
            }
        }
    }
}
