//! A training that is judged on validation data, made of functions alone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_experiment::{KeptBest, Run, Session, train_validated};
use ebm_nn::schedule::Schedule;
use ebm_nn::{import, init, params::ParamStore};
use ebm_ops::optim::{ParamGroup, Sgd};
use ebm_train::{Descent, Group, Learner, Loss, RunSpec, Updater};

#[test]
fn the_best_parameters_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = ParamStore::new(Key::new(0));
    let vb = store.var_builder(DType::F32, &Device::Cpu);
    let w = vb.get_with_hints(1, "w", init::constant(4.0)).unwrap();
    // The gradient of w² at this rate halves w in every step: 2, 1, 0.5.
    let sgd = Sgd::new(store.trainable(), 0.0, |_| ParamGroup::decay(0.0));
    let updater = Updater::new(Box::new(sgd), Schedule::constant(0.25), None);
    let loss = |_| -> Result<Loss, ebm_train::Error> { Ok(w.sqr()?.sum_all()?.into()) };
    let mut task = Descent { learner: Learner::new(store.clone(), updater), loss };

    let distance_from_1 = |store: &ParamStore| -> Result<f64, ebm_train::Error> {
        Ok(f64::from(store.var("w").unwrap().to_vec1::<f32>()?[0] - 1.0).abs())
    };
    let mut best = KeptBest { file: folder.path().join("best.safetensors"), loss: distance_from_1 };
    let spec = RunSpec::new(folder.path(), "run", "steps = 3", 3, 0);
    let run = Run { spec, validate_every: 1 };
    let mut session = Session { group: &Group::alone(), device: &Device::Cpu, progress: &mut () };
    let found = train_validated(&run, &mut task, &mut best, &mut session).unwrap().unwrap();

    assert_eq!((found.step, found.value), (2, 0.0));
    let kept = import::load(&best.file, &Device::Cpu).unwrap();
    assert_eq!(kept["w"].to_vec1::<f32>().unwrap(), [1.0]);
    assert_eq!(w.to_vec1::<f32>().unwrap(), [0.5]);
}
