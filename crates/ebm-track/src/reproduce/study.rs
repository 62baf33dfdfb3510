//! What is compared: the methods of Table 3, or the proposals of the supplement's ablation.

use crate::config::ExperimentConfig;
use crate::method::{BoxProposal, Method, MethodSettings};

/// A comparison of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Study {
    /// Table 3.
    #[default]
    Methods,
    /// The supplement's ablation of the standard deviations of Eq. 5, with the energy model.
    Sigma,
}

/// A row of the supplement's ablation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedSigma {
    /// σ_l of the proposal.
    pub sigmas: &'static [f64],
    /// OP50, OP75 and AUC on OTB-100 and NFS together, in percent.
    pub otb_nfs: [f64; 3],
}

/// The supplement's ablation.
pub const SIGMA_ABLATION: [PublishedSigma; 5] = [
    PublishedSigma { sigmas: &[0.05], otb_nfs: [75.77, 45.72, 63.37] },
    PublishedSigma { sigmas: &[0.01, 0.1], otb_nfs: [77.25, 46.09, 61.48] },
    PublishedSigma { sigmas: &[0.03, 0.3], otb_nfs: [79.27, 48.59, 63.65] },
    PublishedSigma { sigmas: &[0.05, 0.5], otb_nfs: [79.90, 48.71, 64.10] },
    PublishedSigma { sigmas: &[0.07, 0.7], otb_nfs: [78.41, 47.72, 62.75] },
];

/// One of those that are compared.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub method: Method,
    /// Where these are what is compared.
    pub sigmas: Option<Vec<f64>>,
    pub settings: MethodSettings,
}

impl Study {
    pub(super) fn variants(self, config: &ExperimentConfig) -> Vec<Variant> {
        match self {
            Self::Methods => Method::ALL
                .into_iter()
                .map(|method| Variant { method, sigmas: None, settings: config.method(method) })
                .collect(),
            Self::Sigma => {
                let variant = |row: &PublishedSigma| {
                    let (method, sigmas) = (Method::Ebm, row.sigmas.to_vec());
                    let proposal = BoxProposal::Gaussian { sigmas: sigmas.clone() };
                    let settings = MethodSettings { proposal, ..config.method(method) };
                    Variant { method, sigmas: Some(sigmas), settings }
                };
                SIGMA_ABLATION.iter().map(variant).collect()
            }
        }
    }
}

impl Variant {
    /// The name in results, such as `ebm` or `sigma-0.05_0.5`.
    pub fn key(&self) -> String {
        match &self.sigmas {
            None => self.method.key().to_owned(),
            Some(sigmas) => {
                let sigmas: Vec<String> = sigmas.iter().map(f64::to_string).collect();
                format!("sigma-{}", sigmas.join("_"))
            }
        }
    }
}
