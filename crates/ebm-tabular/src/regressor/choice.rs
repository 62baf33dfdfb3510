//! The choice between the energy-based model and the mixture.

use candle_core::{Device, Tensor};
use ebm_eval::Summary;

use super::TabularRegressor;
use super::prepared::Prepared;
use crate::Result;
use crate::model::Ensemble;

impl Prepared<'_> {
    /// Fits the energy-based model and the mixture, and returns the better, not calibrated; `say` gets their figures.
    pub(super) fn better(&self, say: &mut dyn FnMut(&str)) -> Result<TabularRegressor> {
        let [energy, mixture] = [self.train("ebm", say)?, self.train("mixture", say)?];
        let [ours, others] = [self.validation(&energy)?, self.validation(&mixture)?];
        let (is_ours, figures) = choose(&ours, &others)?;
        let kept = if is_ours { energy } else { mixture };
        say(&format!("{} is kept: {figures}", self.config.method(&kept.fitted().method)?.title));
        Ok(kept)
    }

    /// Computes log p of validation rows by the networks that have not learnt from them, each row once.
    fn validation(&self, regressor: &TabularRegressor) -> Result<Vec<f64>> {
        let mut found = Vec::new();
        for (index, network) in regressor.ensemble().0.iter().take(self.folds()).enumerate() {
            let rows = self.part(index, true);
            let y: Vec<Vec<f64>> = rows.iter().map(|&row| self.near(row)).collect();
            let places: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
            let x = self.x.index_select(&Tensor::from_vec(places, rows.len(), &Device::Cpu)?, 0)?;
            found.extend(regressor.log_probs(&Ensemble(vec![network.clone()]), &x, &y)?);
        }
        Ok(found)
    }
}

/// Returns whether the mean of `energy` is more than one standard error of the paired difference above that of `mixture`,
/// with the figures in words.
fn choose(energy: &[f64], mixture: &[f64]) -> Result<(bool, String)> {
    let difference: Vec<f64> = energy.iter().zip(mixture).map(|(a, b)| a - b).collect();
    let [ours, others, found] = [energy, mixture, &difference].map(Summary::new);
    let (ours, others, found) = (ours?.mean, others?.mean, found?);
    let error = found.standard_error().unwrap_or(f64::INFINITY);
    let figures = format!(
        "on {} validation rows the mean log p is {ours:.3} (ebm) and {others:.3} (mixture), {:+.3} ± {error:.3}",
        found.count, found.mean
    );
    Ok((found.mean > error, figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences of 0 and 2 as often have the mean 1 and the deviation √(n/(n − 1)); 4 of them the error 1/√3.
    #[test]
    fn the_mixture_is_kept_within_one_standard_error() {
        let mixture = [-4.0, -1.0, 3.0, 0.0];
        let energy = |moved: f64| [0.0, 2.0, 0.0, 2.0].map(|d| d - 1.0 + moved);
        let is_ours = |moved: f64| {
            let energy: Vec<f64> = energy(moved).iter().zip(mixture).map(|(d, log_p)| d + log_p).collect();
            choose(&energy, &mixture).unwrap()
        };
        let error = 1.0 / 3f64.sqrt();
        assert!(is_ours(error + 1e-6).0 && !is_ours(error - 1e-6).0 && !is_ours(-2.0).0);
        let figures = "4 validation rows the mean log p is 0.500 (ebm) and -0.500 (mixture), +1.000 ± 0.577";
        assert!(is_ours(1.0).1.contains(figures), "{}", is_ours(1.0).1);
        // A single row has no error.
        assert!(!choose(&[9.0], &[0.0]).unwrap().0);
    }
}
