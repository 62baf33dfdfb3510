//! Two real processes over MPI: this test starts itself under each `mpiexec` that is there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's failure is its report")]

#[path = "common/regression.rs"]
mod regression;

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use ebm_testing::mpi;
use ebm_train::distributed::{Group, Launch, join_mpi};
use ebm_train::{Error, RunSpec, train_together};
use regression::{Fault, Regression};

const STEPS: usize = 12;
/// What a process that another has started is to do, and where.
const WORK: &str = "EBM_TEST_WORK";

/// Has two processes do `work` in `root`.
fn two(mpiexec: &Path, root: &Path, work: &str) -> std::process::Output {
    let mut command = mpi::mpiexec(mpiexec);
    command.args(["-n", "2"]).arg(std::env::current_exe().unwrap()).args([
        "--exact",
        "worker",
        "--nocapture",
    ]);
    command.env(WORK, format!("{work} {}", root.display()));
    mpi::finish(command)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn join() -> Result<Group, Error> {
    let launch = Launch::from_variables(&variable)?;
    join_mpi(&launch, &variable)
}

fn train(root: &Path, group: &Group, fault: Fault) -> Result<Vec<f32>, Error> {
    let spec = RunSpec::new(root, "run", "lr = 0.05\n", STEPS, 1);
    let mut task = Regression::new(group, fault);
    train_together(&RunSpec { checkpoint_every: 5, ..spec }, &mut task, &mut (), group)?;
    group.finish().unwrap();
    Ok(task.values())
}

/// One of two processes; nothing where nobody has started it.
#[test]
fn worker() {
    let Some(work) = variable(WORK) else { return };
    let (work, root) = work.split_once(' ').unwrap();
    let root = PathBuf::from(root);
    let group = join().unwrap();
    let rank = group.rank();
    let faulty = |fault| if rank == 1 { fault } else { Fault::None };
    match work {
        "means" => means(&group),
        "train" => {
            let values = train(&root, &group, Fault::None).unwrap();
            std::fs::write(root.join(format!("rank-{rank}")), format!("{values:?}")).unwrap();
        }
        "fails" => {
            let error = train(&root, &group, faulty(Fault::Fails(3))).unwrap_err();
            std::fs::write(root.join(format!("rank-{rank}")), error.to_string()).unwrap();
        }
        "panics" => {
            assert_eq!(rank, 0, "rank 1 comes to a bad end");
            group.any(true).unwrap();
        }
        "vanishes" => {
            if rank == 1 {
                std::process::abort();
            }
            group.any(true).unwrap();
        }
        other => panic!("{other}"),
    }
}

fn means(group: &Group) {
    let rank = group.rank();
    assert_eq!(group.world(), 2);
    for (dtype, count) in [(DType::F32, 5_000_001), (DType::F64, 7), (DType::F32, 1)] {
        let numbers = |rank: usize| {
            let values: Vec<f64> = (0..count).map(|i| ((i * 7 + rank * 3) % 11) as f64 - 4.5).collect();
            Tensor::new(values, &Device::Cpu).unwrap()
        };
        let mut mine =
            [numbers(rank).to_dtype(dtype).unwrap(), Tensor::new(rank as f32, &Device::Cpu).unwrap()];
        group.mean(&mut mine).unwrap();
        // Halves of small integers are exact.
        let expected = ((numbers(0) + numbers(1)).unwrap() / 2.0).unwrap().to_vec1::<f64>().unwrap();
        assert!(mine[0].to_dtype(DType::F64).unwrap().to_vec1::<f64>().unwrap() == expected);
        assert_eq!(mine[1].to_scalar::<f32>().unwrap(), 0.5);
    }
    assert_eq!(group.share(vec![rank as u8 + 1; 3 + rank]).unwrap(), [1; 3]);
    assert_eq!(group.share(Vec::new()).unwrap(), [0_u8; 0]);
    assert!(group.any(rank == 1).unwrap() && !group.any(false).unwrap());
    // They part, each with an error, where one does something else.
    let error = if rank == 0 { group.any(true).unwrap_err() } else { group.share(vec![]).unwrap_err() };
    assert!(error.to_string().contains("rank 1"), "{error}");
}

fn read(root: &Path, rank: usize) -> String {
    std::fs::read_to_string(root.join(format!("rank-{rank}"))).unwrap()
}

#[test]
fn two_processes_train_as_one_and_end_together() {
    for mpiexec in mpi::launchers() {
        take_means_and_train_as_one(&mpiexec);
        one_fails_and_both_end(&mpiexec);
    }
}

fn take_means_and_train_as_one(mpiexec: &Path) {
    let root = tempfile::tempdir().unwrap();
    let alone = train(root.path(), &Group::alone(), Fault::None).unwrap();
    let root = tempfile::tempdir().unwrap();
    let output = two(mpiexec, root.path(), "means");
    assert!(output.status.success(), "{}", mpi::text(&output));
    let output = two(mpiexec, root.path(), "train");
    assert!(output.status.success(), "{}", mpi::text(&output));
    assert_eq!(read(root.path(), 0), read(root.path(), 1));
    let text = read(root.path(), 0);
    let found: Vec<f32> =
        text.trim_matches(['[', ']']).split(", ").map(|value| value.parse().unwrap()).collect();
    assert_eq!(found.len(), alone.len());
    for (found, expected) in found.iter().zip(&alone) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

fn one_fails_and_both_end(mpiexec: &Path) {
    let root = tempfile::tempdir().unwrap();
    let output = two(mpiexec, root.path(), "fails");
    assert!(output.status.success(), "{}", mpi::text(&output));
    assert_eq!(read(root.path(), 0), "step 3: rank 1 failed: step 3: the power went out");
    assert_eq!(read(root.path(), 1), "step 3: the power went out");
    for work in ["panics", "vanishes"] {
        let output = two(mpiexec, root.path(), work);
        assert!(!output.status.success(), "{}", mpi::text(&output));
    }
}
