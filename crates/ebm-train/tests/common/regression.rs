//! Least squares on a batch that processes share, through the product's own updater.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_nn::params::ParamStore;
use ebm_nn::schedule::Schedule;
use ebm_ops::optim::{ParamGroup, Sgd};
use ebm_train::distributed::Group;
use ebm_train::{BoxError, CheckpointData, Loss, LossPart, Progress, StepReport, TrainTask, Updater};
use rand::Rng;

pub const BATCH: usize = 12;

/// What goes wrong on this rank, and at which step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// `step` returns an error.
    Fails(usize),
    /// The loss is NaN.
    NotANumber(usize),
    /// The update is applied twice.
    Drifts(usize),
}

/// Minimises the mean over the batch of (x·w + b − y)², plus c, with clipped gradients. All of c is in the
/// last rank's loss: the others have no gradient of it.
pub struct Regression {
    store: ParamStore,
    w: Tensor,
    b: Tensor,
    c: Tensor,
    updater: Updater,
    group: Group,
    fault: Fault,
}

impl Regression {
    pub fn new(group: &Group, fault: Fault) -> Self {
        let store = ParamStore::new(Key::new(3));
        let builder = store.var_builder(DType::F32, &Device::Cpu);
        let [b, c] = ["b", "c"].map(|name| builder.get(1, name).unwrap());
        let w = builder.get((3, 1), "w").unwrap();
        let optimizer = Sgd::new(store.trainable(), 0.9, |_| ParamGroup::decay(0.0));
        let updater = Updater::new(Box::new(optimizer), Schedule::constant(0.05), Some(1.0)).over(group);
        Self { store, w, b, c, updater, group: group.clone(), fault }
    }

    /// The parameters.
    pub fn values(&self) -> Vec<f32> {
        [&self.w, &self.b, &self.c]
            .iter()
            .flat_map(|t| t.flatten_all().unwrap().to_vec1::<f32>().unwrap())
            .collect()
    }
}

impl TrainTask for Regression {
    type Update = GradStore;

    fn step(&mut self, step: usize) -> Result<(StepReport, GradStore), BoxError> {
        if self.fault == Fault::Fails(step) {
            return Err("the power went out".into());
        }
        // The whole batch, the same on every rank, of which each takes its share.
        let mut rng = Key::new(1).split("batch").index(step as u64).rng();
        let x: Vec<f32> = (0..BATCH * 3).map(|_| rng.random_range(-1.0..1.0)).collect();
        let y: Vec<f32> = x.chunks(3).map(|x| x[0] - 2.0 * x[1] + 0.5 * x[2] + 0.25).collect();
        let part = self.group.share_of(BATCH)?;
        let x = Tensor::new(x, &Device::Cpu)?.reshape((BATCH, 3))?.narrow(0, part.start, part.len())?;
        let y = Tensor::new(y, &Device::Cpu)?.reshape((BATCH, 1))?.narrow(0, part.start, part.len())?;
        let mut loss = (x.matmul(&self.w)?.broadcast_add(&self.b)? - y)?.sqr()?.mean_all()?;
        let world = self.group.world();
        if self.group.rank() + 1 == world {
            loss = (loss + (self.c.sum_all()? * world as f64)?)?;
        }
        if self.fault == Fault::NotANumber(step) {
            loss = (loss * f64::NAN)?;
        }
        let part = LossPart { name: Some("part"), value: loss, terms: 1 };
        Ok(self.updater.gradients(Loss::sum([part]), step)?)
    }

    fn apply(&mut self, step: usize, gradients: GradStore) -> Result<(), BoxError> {
        if self.fault == Fault::Drifts(step) {
            self.updater.apply(step, &gradients)?;
        }
        Ok(self.updater.apply(step, &gradients)?)
    }

    fn state(&self) -> Result<CheckpointData, BoxError> {
        Ok(self.updater.checkpoint(&self.store)?)
    }

    fn restore(&mut self, data: CheckpointData) -> Result<(), BoxError> {
        Ok(self.updater.restore(&self.store, &data)?)
    }
}

/// Asks to stop after so many steps.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub struct StopAfter(pub usize);

impl Progress for StopAfter {
    fn stop_requested(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}
