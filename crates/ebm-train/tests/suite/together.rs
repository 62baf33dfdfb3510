//! The loop in several processes, which are threads here; over MPI see `mpi.rs`.

use std::path::Path;
use std::thread;

use crate::regression::{Fault, Regression, StopAfter};
use candle_core::{Device, Tensor, Var};
use ebm_base::Key;
use ebm_nn::params::ParamStore;
use ebm_nn::schedule::Schedule;
use ebm_ops::optim::{ParamGroup, Sgd};
use ebm_train::distributed::{Group, Threads};
use ebm_train::{
    Descent, Error, Learner, Loss, Progress, RunSpec, TrainTask, Updater, read_metrics, train_together,
};

const STEPS: usize = 12;

/// What each rank's work returns.
fn ranks<T: Send>(world: usize, work: impl Fn(Group) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let start = |engine| scope.spawn(move || work(Group::new(Box::new(engine))));
        let threads: Vec<_> = Threads::new(world).into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn spec(root: &Path) -> RunSpec<'_> {
    let spec = RunSpec::new(root, "run", "lr = 0.05\n", STEPS, 1);
    RunSpec { checkpoint_every: 5, resume: true, ..spec }
}

fn go(root: &Path, group: &Group, fault: Fault, progress: &mut dyn Progress) -> Result<Vec<f32>, Error> {
    let mut task = Regression::new(group, fault);
    let run = train_together(&spec(root), &mut task, progress, group)?;
    assert_eq!(run.is_some(), group.is_first());
    group.finish().unwrap();
    Ok(task.values())
}

/// Each rank's result where `faulty` has the fault.
fn with_fault(root: &Path, faulty: usize, fault: Fault) -> Vec<Result<Vec<f32>, Error>> {
    ranks(2, |group| {
        let mine = if group.rank() == faulty { fault } else { Fault::None };
        go(root, &group, mine, &mut ())
    })
}

/// Whether the error, or what is behind it, is the failure of another rank, for a reason that contains
/// `part`.
fn is_of_rank(error: &Error, expected: usize, part: &str) -> bool {
    match error {
        Error::Rank(rank, message) => *rank == expected && message.contains(part),
        Error::Task { source, .. } => {
            source.downcast_ref().is_some_and(|cause| is_of_rank(cause, expected, part))
        }
        _ => false,
    }
}

#[test]
fn unequal_shares_count_each_term_once() {
    // f = w·x, the loss is the mean of f² over six terms, of which rank 0 has one, rank 1 three and rank 2
    // two; w = 3. Its gradient in w is 2w times the mean of x²: 6 · (4 + 1 + 1 + 1 + 9 + 0)/6 = 16. The mean
    // of the shares' means would be 6 · (4 + 1 + 4.5)/3 = 19.
    let shares: [&[f32]; 3] = [&[2.0], &[1.0, -1.0, 1.0], &[3.0, 0.0]];
    let results = ranks(3, |group| {
        let x = shares[group.rank()];
        let w = Var::new(3f32, &Device::Cpu).unwrap();
        let optimizer = Sgd::new(vec![("w".into(), w.clone())], 0.9, |_| ParamGroup::decay(0.0));
        let updater = Updater::new(Box::new(optimizer), Schedule::constant(0.1), None).over(&group);
        let f = Tensor::new(x, &Device::Cpu).unwrap().broadcast_mul(&w).unwrap();
        let loss = Loss::mean_over(x.len(), f.sqr().unwrap().mean_all().unwrap());
        let (report, gradients) = updater.gradients(loss, 0).unwrap();
        (report.loss, gradients.get(&w).unwrap().to_scalar::<f32>().unwrap())
    });
    for (loss, gradient) in results {
        assert!((loss - 24.0).abs() < 1e-5 && (gradient - 16.0).abs() < 1e-5, "{loss} {gradient}");
    }
    // Without any term there is no weight that could be wrong.
    let updater = |group: &Group| {
        Updater::new(
            Box::new(Sgd::new(vec![], 0.9, |_| ParamGroup::decay(0.0))),
            Schedule::constant(0.1),
            None,
        )
        .over(group)
    };
    assert_eq!(ranks(2, |group| updater(&group).weights(&[0, group.rank()]).unwrap()), [[1., 0.], [1., 2.]]);
}

#[test]
fn equal_shares_give_what_the_whole_batch_gives() {
    let roots: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let log = |root: &Path| read_metrics(&root.join("run/metrics.jsonl")).unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{a} {b}");
    let whole = go(roots[0].path(), &Group::alone(), Fault::None, &mut ()).unwrap();
    for (world, root) in [(2, &roots[1]), (3, &roots[2])] {
        let results = ranks(world, |group| go(root.path(), &group, Fault::None, &mut ()).unwrap());
        for result in &results {
            assert_eq!(result, &results[0]);
        }
        for (&found, &expected) in results[0].iter().zip(&whole) {
            close(f64::from(found), f64::from(expected));
        }
        let (found, expected) = (log(root.path()), log(roots[0].path()));
        assert_eq!(found.len(), STEPS);
        for (found, expected) in found.iter().zip(&expected) {
            close(found.loss.unwrap(), expected.loss.unwrap());
            close(found.grad_norm.unwrap(), expected.grad_norm.unwrap());
            assert_eq!(found.scalars["part"], found.loss);
        }
    }
    // Something was learnt, and the bound was felt.
    let log = log(roots[0].path());
    assert!(log[STEPS - 1].loss.unwrap() < log[0].loss.unwrap() && log[0].grad_norm.unwrap() > 1.0);
}

#[test]
fn any_rank_stops_all_and_they_go_on_to_the_same_bytes() {
    let [whole, stopped] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let expected = ranks(2, |group| go(whole.path(), &group, Fault::None, &mut ()).unwrap());
    for (rank, after) in [(1, 3), (0, 4)] {
        let results = ranks(2, |group| {
            let mut progress = StopAfter(if group.rank() == rank { after } else { usize::MAX });
            go(stopped.path(), &group, Fault::None, &mut progress).unwrap_err()
        });
        let at = if rank == 1 { 3 } else { 7 };
        for error in results {
            assert!(matches!(error, Error::Interrupted { step, .. } if step == at), "{error}");
        }
    }
    assert_eq!(ranks(2, |group| go(stopped.path(), &group, Fault::None, &mut ()).unwrap()), expected);
    let files = ["metrics.jsonl", "checkpoints/step-00000012/SHA256SUMS"];
    for file in files {
        let read = |root: &tempfile::TempDir| std::fs::read(root.path().join("run").join(file)).unwrap();
        assert_eq!(read(&whole), read(&stopped), "{file}");
    }
    // Nothing is left to do; all know.
    assert_eq!(ranks(2, |group| go(stopped.path(), &group, Fault::None, &mut ()).unwrap()), expected);
}

#[test]
fn a_loss_that_is_not_finite_anywhere_is_skipped_everywhere() {
    for faulty in 0..2 {
        let root = tempfile::tempdir().unwrap();
        let results = with_fault(root.path(), faulty, Fault::NotANumber(4));
        let [first, second] = results.try_into().unwrap();
        assert_eq!(first.unwrap(), second.unwrap());
        let records = read_metrics(&root.path().join("run/metrics.jsonl")).unwrap();
        assert!(records.iter().all(|record| record.skipped == (record.step == 4)));
    }
}

#[test]
fn where_one_rank_fails_the_others_say_which() {
    for faulty in 0..2 {
        let root = tempfile::tempdir().unwrap();
        for (rank, result) in with_fault(root.path(), faulty, Fault::Fails(3)).into_iter().enumerate() {
            let error = result.unwrap_err();
            let own =
                matches!(&error, Error::Task { step: 3, source } if source.to_string().contains("power"));
            assert!(
                if rank == faulty { own } else { is_of_rank(&error, faulty, "power") },
                "{rank}: {error}"
            );
        }
    }
    // Before the first step: the run is there already.
    let root = tempfile::tempdir().unwrap();
    go(root.path(), &Group::alone(), Fault::None, &mut ()).unwrap();
    let errors = ranks(2, |group| {
        let spec = RunSpec { resume: false, ..spec(root.path()) };
        train_together(&spec, &mut Regression::new(&group, Fault::None), &mut (), &group).unwrap_err()
    });
    assert!(errors[0].to_string().contains("already holds a run"), "{}", errors[0]);
    assert!(is_of_rank(&errors[1], 0, "already holds a run"), "{}", errors[1]);
}

#[test]
fn a_rank_that_has_come_apart_is_found() {
    let root = tempfile::tempdir().unwrap();
    let results = with_fault(root.path(), 1, Fault::Drifts(STEPS - 1));
    assert!(is_of_rank(results[0].as_ref().unwrap_err(), 1, "not rank 0's"));
    let own = results[1].as_ref().unwrap_err().to_string();
    assert!(own.starts_with(&format!("after step {STEPS} its parameters")), "{own}");

    let root = tempfile::tempdir().unwrap();
    let errors = ranks(2, |group| {
        let spec = RunSpec { seed: group.rank() as u64, ..spec(root.path()) };
        train_together(&spec, &mut Regression::new(&group, Fault::None), &mut (), &group).unwrap_err()
    });
    assert!(is_of_rank(&errors[0], 1, "seed"), "{}", errors[0]);
    assert!(errors[1].to_string().starts_with("its seed is 1, rank 0's is 0"), "{}", errors[1]);
}

#[test]
fn running_statistics_are_means_too() {
    let results = ranks(2, |group| {
        let store = ParamStore::new(Key::new(1));
        let name = "norm.running_mean";
        store.preload([(name.to_owned(), Tensor::new(&[0f32, 0.0], &Device::Cpu).unwrap())].into());
        let builder = store.var_builder(candle_core::DType::F32, &Device::Cpu);
        builder.get(2, name).unwrap();
        let w = Var::new(3f32, &Device::Cpu).unwrap();
        let sgd = Sgd::new(vec![("w".into(), w.clone())], 0.9, |_| ParamGroup::decay(0.0));
        let updater = Updater::new(Box::new(sgd), Schedule::constant(0.1), None);
        let moved = Tensor::new(&[group.rank() as f32, 4.0], &Device::Cpu).unwrap();
        let loss = |_: usize| -> Result<Loss, Error> {
            store.var(name).unwrap().set(&moved)?;
            Ok(w.sqr()?.into())
        };
        let mut task = Descent { learner: Learner::new(store.clone(), updater).over(&group), loss };
        let running = || store.var(name).unwrap().to_vec1::<f32>().unwrap();
        let (_, update) = task.step(0).unwrap();
        assert_eq!(running(), [0.0, 0.0]);
        task.apply(0, update).unwrap();
        group.finish().unwrap();
        running()
    });
    assert_eq!(results, [[0.5, 4.0], [0.5, 4.0]]);
}
