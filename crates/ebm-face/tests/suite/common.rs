//! What several tests share.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_face::Result;
use ebm_face::config::{ExperimentConfig, Settings};
use ebm_face::network::{Head, Network, TRUNK};
use ebm_face::training::{Batch, BatchSource, FaceTask};
use ebm_nn::init::{draw, normal};
use ebm_nn::params::ParamStore;
use ebm_train::TrainTask;

pub const CPU: Device = Device::Cpu;

/// Normal numbers.
pub fn noise(shape: &[usize], dtype: DType, salt: u64) -> Tensor {
    draw(&normal(1.0), shape, dtype, &CPU, &mut Key::new(7).index(salt).rng()).unwrap()
}

/// The mini scale, smaller still.
pub fn config() -> ExperimentConfig {
    let text = r#"
        extends = "age_mini"
        input = { size = 16, flip_probability = 0.5, scale = [1.0, 1.0] }
        trunk = { kind = "resnet", layers = [1, 1, 1, 1], width = 4 }
        head = { y_layers = [8, 8], hidden = 16 }
        training = { epochs = 4.0, batch_size = 8, milestones = [] }
        energy = { objective = { num_samples = 16, proposal.gaussian.sigmas = [0.5, 10.0] }, training = { epochs = 4.0, batch_size = 8, milestones = [] } }
        ablation = { sigmas = [[1.0, 20.0]], published = [5.12] }
        density = { lo = 0.0, hi = 100.0, num_points = 51 }
        [frozen]
        views = 2
        trunk = { method = "direct_l2", training = { epochs = 3.0, batch_size = 8, learning_rate = 0.003, weight_decay = 0.0 } }
    "#;
    ExperimentConfig::parse("test", text).unwrap()
}

/// A whole network of `method` on images, and the store of its parameters.
pub fn network(config: &ExperimentConfig, method: &str, seed: u64) -> (Network, ParamStore) {
    let store = ParamStore::new(Key::new(seed));
    let trunk = config.trunk.build(&store, TRUNK, DType::F32, &CPU).unwrap();
    let width = trunk.num_features();
    let head = Head::of(config, method, width, &store, &CPU).unwrap();
    (Network::new(config, Some(trunk), head).unwrap(), store)
}

/// Every step has the same batch: an epoch.
pub struct OneBatch {
    pub x: Tensor,
    pub y: Tensor,
}

impl BatchSource for OneBatch {
    fn batch(&mut self, _: usize) -> Result<Batch> {
        Ok(Batch { x: self.x.clone(), y: self.y.clone() })
    }

    fn count(&self) -> usize {
        self.x.dims()[0]
    }
}

/// Runs `steps` steps: the loss of each.
pub fn train<S: BatchSource>(task: &mut FaceTask<S>, steps: usize) -> Vec<f64> {
    let mut losses = Vec::new();
    for step in 0..steps {
        let (report, update) = task.step(step).unwrap();
        task.apply(step, update).unwrap();
        losses.push(report.loss);
    }
    losses
}

/// Sets a parameter of `store` to `values`.
pub fn set(store: &ParamStore, name: &str, values: &[f32]) {
    let var = store.var(name).unwrap_or_else(|| panic!("{name} is not among {:?}", store.names()));
    let values = Tensor::from_slice(values, var.shape(), &CPU).unwrap();
    var.set(&values).unwrap();
}

/// Sets every number of a parameter of `store` to 0.
pub fn zero(store: &ParamStore, name: &str) {
    let count = store.var(name).map_or(0, |var| var.elem_count());
    set(store, name, &vec![0.0; count]);
}
