//! SM: score matching.

use candle_core::Tensor;
use ebm_settings::settings;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{Derivatives, Directions, Objective};
use crate::{EnergyModel, Result, check};

settings! {
    /// Score matching (Hyvärinen, 2005; SM in Gustafsson et al., BMVC 2020), which needs no samples and no Z:
    ///
    /// `(1/B) Σ_i { tr ∇²_y f(x_i, y_i) + ½ ‖∇_y f(x_i, y_i)‖² }`.
    ///
    /// A network that is piecewise linear in y has no second derivative to train on: take a smooth
    /// activation.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ScoreMatching {
        /// How derivatives are found.
        pub derivatives: Derivatives,
        /// Along which directions; random ones make this sliced score matching.
        pub directions: Directions,
    }
}

impl Objective for ScoreMatching {
    fn loss<M: EnergyModel>(
        &self,
        model: &M,
        features: &M::Features,
        y: &Tensor,
        rng: &mut dyn RngCore,
    ) -> Result<Tensor> {
        check::targets(y)?;
        let y = y.detach().unsqueeze(1)?;
        let (directions, weight) = self.directions.tensors(&y, rng)?;
        let terms = directions.iter().map(|direction| {
            let (first, second) = self.derivatives.first_and_second(model, features, &y, direction)?;
            Ok((second + (first.sqr()? * 0.5)?)?.mean_all()?)
        });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        Ok((Tensor::stack(&terms, 0)?.sum_all()? * weight)?)
    }
}
