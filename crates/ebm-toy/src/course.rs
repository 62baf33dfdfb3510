//! A method's model and its training, which can stop after any step and go on.

use candle_core::Device;
use ebm_base::Key;
use ebm_core::parametric::{Gaussian, MixtureOfGaussians, Parametric};
use ebm_core::{JointNce, Objective};

use crate::Result;
use crate::dataset::Points;
use crate::energy::ToyEnergy;
use crate::experiment::{Experiment, Method, ModelConfig, Trained};
use crate::network::Heads;
use crate::training::Training;

/// A model that is being trained.
pub struct Course {
    model: ModelConfig,
    pool: Key,
    trained: Trained,
    proposal: Option<Heads>,
    training: Training,
}

impl Course {
    /// As [`Experiment::begin`].
    pub(crate) fn begin(experiment: &Experiment, method: &Method, points: Points, key: Key) -> Result<Self> {
        let init = key.split("init");
        let (trained, proposal) = match &method.model {
            ModelConfig::Gaussian => (Trained::Gaussian(Heads::gaussian(init)?), None),
            ModelConfig::Energy(_) => {
                (Trained::Energy(ToyEnergy::new(experiment.network, init, &Device::Cpu)?), None)
            }
            &ModelConfig::JointNce { components, .. } => {
                let proposal = Heads::mixture(components, init.split("proposal"))?;
                (Trained::Energy(ToyEnergy::new(experiment.network, init, &Device::Cpu)?), Some(proposal))
            }
        };
        let own = match &trained {
            Trained::Gaussian(heads) => heads.parameters("theta"),
            Trained::Energy(model) => model.parameters(),
        };
        let parameters =
            own.into_iter().chain(proposal.iter().flat_map(|heads| heads.parameters("proposal")));
        let steps = key.split("training");
        let training =
            Training::new(&method.name, &experiment.schedule, points, parameters.collect(), steps)?;
        Ok(Self { model: method.model.clone(), pool: key.split("pool"), trained, proposal, training })
    }

    /// Goes on while `goes_on` says so, which is asked before every step; what comes of it depends on the number of steps
    /// alone.
    ///
    /// # Errors
    /// [`Error::NonFinite`](crate::Error::NonFinite), or what the objective reports.
    pub fn train(&mut self, mut goes_on: impl FnMut(&Training) -> bool) -> Result<()> {
        let Self { model, pool, trained, proposal, training } = self;
        match (trained, &*model, proposal) {
            (Trained::Gaussian(heads), ..) => {
                let baseline = Gaussian::new(1)?;
                while goes_on(training) {
                    training.step(|x, y, _| Ok(baseline.loss(&heads.outputs(x)?, y)?))?;
                }
            }
            (Trained::Energy(model), &ModelConfig::JointNce { components, num_samples }, Some(heads)) => {
                let mixture = MixtureOfGaussians::new(1, components)?;
                while goes_on(training) {
                    training.step(|x, y, key| {
                        let features = model.features(x)?;
                        let proposal = mixture.density(&heads.outputs(&features.detach())?)?;
                        let objective = JointNce { proposal: &proposal, num_samples };
                        Ok(objective.loss(model, &features, y, &mut key.rng())?)
                    })?;
                }
            }
            (Trained::Energy(model), ModelConfig::Energy(objective), _) => {
                let objective = objective.build(&mut pool.rng())?;
                while goes_on(training) {
                    training.step(|x, y, key| {
                        Ok(objective.loss(model, &model.features(x)?, y, &mut key.rng())?)
                    })?;
                }
            }
            // No other pair is made.
            (Trained::Energy(_), ..) => {}
        }
        Ok(())
    }

    /// The model as it is.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// What it has been trained on, and how long.
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// The model, and the mean loss of each epoch.
    pub(crate) fn end(self) -> (Trained, Vec<f64>) {
        let history = self.training.history().to_vec();
        (self.trained, history)
    }

    /// [`Training::add`].
    pub fn add(&mut self, x: f32, y: f32) {
        self.training.add(x, y);
    }
}
