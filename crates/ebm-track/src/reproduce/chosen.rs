//! What held-out boxes choose of how a module is used.

use ebm_experiment::best as best_of;
use ebm_seed::Key;
use ebm_train::Progress;

use super::accuracy::{box_accuracy, nll_at};
use crate::Result;
use crate::box_module::BoxModule;
use crate::config::ExperimentConfig;
use crate::method::MethodConfig;
use crate::training::PairFeatures;

/// How a trained module is used, as held-out boxes choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// The factor of the configured step lengths with the best boxes.
    pub step_factor: f64,
    /// The temperature of p(y|x) at which the boxes are likeliest; 1 where f is trained as no density.
    pub temperature: f64,
}

impl Default for Chosen {
    /// Everything as it was trained and configured.
    fn default() -> Self {
        Self { step_factor: 1.0, temperature: 1.0 }
    }
}

/// How the module of `method` is best used on the held-out pairs; as it is where there is none.
///
/// # Errors
/// When the network refuses.
pub(crate) fn choose(
    config: &ExperimentConfig,
    method: &MethodConfig,
    name: &str,
    network: &BoxModule,
    held_out: &[PairFeatures],
    progress: &mut dyn Progress,
) -> Result<Chosen> {
    if held_out.is_empty() {
        return Ok(Chosen::default());
    }
    let refinements: Vec<_> =
        config.step_factors.iter().map(|&factor| method.refinement.scaled(factor)).collect();
    let key = Key::new(0).split("accuracy");
    let batches = held_out.iter().cloned().map(Ok);
    let found = box_accuracy(network, batches, &refinements, &config.tracker.boxes, key)?;
    let mean = |overlaps: &Vec<[f64; 2]>, which: usize| {
        overlaps.iter().map(|pair| pair[which]).sum::<f64>() / overlaps.len() as f64
    };
    for (factor, overlaps) in config.step_factors.iter().zip(&found) {
        let [before, after] = [0, 1].map(|which| mean(overlaps, which));
        progress.message(&format!("{name}: step lengths × {factor}: IoU {before:.3}, refined {after:.3}"));
    }
    let best = best_of(&config.step_factors, found.iter().map(|overlaps| mean(overlaps, 1)));
    let step_factor = best.map_or(1.0, |(factor, _)| factor);
    let temperature = match method.proposal() {
        Some(proposal) => {
            let temperatures = &config.temperatures;
            let key = Key::new(0).split("temperature");
            let nll = nll_at(network, &proposal, temperatures, held_out, key)?;
            for (temperature, nll) in temperatures.iter().zip(&nll) {
                progress.message(&format!("{name}: p(y|x) at temperature {temperature}: NLL {nll:.3}"));
            }
            best_of(temperatures, nll.iter().map(|nll| -nll)).map_or(1.0, |(temperature, _)| temperature)
        }
        None => 1.0,
    };
    Ok(Chosen { step_factor, temperature })
}
