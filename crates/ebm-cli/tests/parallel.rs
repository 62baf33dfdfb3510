//! Training in two processes of the program, started by each `mpiexec` that is there; and what launchers'
//! variables do without one.

use crate::common::program::{command, said};
use crate::common::training::{Case, logged, wait_for_steps};

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ebm_testing::mpi;

const STEPS: usize = 12;

/// Two processes; of the second, each argument after which `second` gives another value has that one.
fn two(mpiexec: &Path, command: &Command, second: &[(&str, &Path)]) -> Command {
    let mut both = mpi::mpiexec(mpiexec);
    let arguments: Vec<OsString> = command.get_args().map(Into::into).collect();
    both.args(["-n", "1"]).arg(command.get_program()).args(&arguments);
    both.args([":", "-n", "1"]).arg(command.get_program());
    for (i, argument) in arguments.iter().enumerate() {
        let other =
            i.checked_sub(1).and_then(|before| second.iter().find(|(name, _)| arguments[before] == *name));
        both.arg(other.map_or_else(|| argument.clone(), |(_, value)| value.into()));
    }
    both
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", mpi::text(output));
}

/// One test, so that without MPI one is missing.
#[test]
fn two_processes_train_one_model_and_end_together() {
    let launchers = mpi::launchers();
    if launchers.is_empty() {
        return;
    }
    one_model_whatever_stops_them(&launchers);
    a_detector_with_its_running_statistics(&launchers);
    where_one_fails_the_other_says_which(&launchers);
    where_one_does_not_join_the_other_does_not_wait(&launchers);
}

fn one_model_whatever_stops_them(launchers: &[PathBuf]) {
    let case = Case::new(STEPS, 5).batches_of(2);
    for (i, mpiexec) in launchers.iter().enumerate() {
        let name = |what: &str| format!("{what}-{i}");
        let run = case.path(&name("whole"));
        let output = mpi::finish(two(mpiexec, &case.train(&name("whole"), false), &[]));
        succeeded(&output);
        // One of them speaks and writes. That both hold the same parameters at the end, they check
        // themselves.
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed.trim(), run.join("ebm.safetensors").to_str().unwrap());
        // A slow machine has lines on the way, too.
        let said = said(&output);
        let ends = said.lines().filter(|line| line.contains("training") && line.contains(" done in "));
        assert_eq!(ends.count(), 1, "{}", mpi::text(&output));
        assert_eq!(logged(&run), STEPS);
        let whole = case.branch(&name("whole"));

        for signal in ["KILL", "TERM"] {
            let run = case.path(&name(signal));
            let mut command = two(mpiexec, &case.train(&name(signal), false), &[]);
            let child = command.spawn().unwrap();
            wait_for_steps(&run, 7);
            let first = std::fs::read_to_string(run.join("lock")).unwrap();
            let sent = ebm_testing::signal(first.trim().parse().unwrap(), signal);
            let output = child.wait_with_output().unwrap();
            // Between the last step and the signal there may have been nothing left to stop.
            if logged(&run) < STEPS {
                assert!(sent && !output.status.success(), "{}", mpi::text(&output));
            }
            let output = mpi::finish(two(mpiexec, &case.train(&name(signal), true), &[]));
            succeeded(&output);
            assert!(mpi::text(&output).contains("going on from step"), "{}", mpi::text(&output));
            assert!(case.branch(&name(signal)) == whole, "{signal}");
        }
    }
}

fn a_detector_with_its_running_statistics(launchers: &[PathBuf]) {
    let case = Case::new(2, 0);
    for (i, mpiexec) in launchers.iter().enumerate() {
        let run = case.path(&format!("detector-{i}"));
        let mut command =
            command(&["train", "detector", "--config", "mini", "--batch-size", "2", "--steps", "2"]);
        command.arg("--annotations").arg(case.path("scenes/annotations.json"));
        command.arg("--images").arg(case.path("scenes/images")).arg("--run").arg(&run);
        // Each normalises by its own images: without the mean their statistics would differ, which they would
        // notice.
        succeeded(&mpi::finish(two(mpiexec, &command, &[])));
        assert!(run.join("detector.safetensors").exists());
    }
}

fn where_one_fails_the_other_says_which(launchers: &[PathBuf]) {
    let case = Case::new(STEPS, 0).batches_of(2);
    let damaged = case.path("damaged");
    std::fs::create_dir(&damaged).unwrap();
    for image in std::fs::read_dir(case.path("scenes/images")).unwrap() {
        std::fs::write(damaged.join(image.unwrap().file_name()), b"no image").unwrap();
    }
    for (i, mpiexec) in launchers.iter().enumerate() {
        // With the cache before the first step, without in it.
        for cache in [true, false] {
            let mut command = case.train(&format!("damaged-{i}-{cache}"), false);
            if !cache {
                let kept: Vec<OsString> =
                    command.get_args().filter(|a| *a != "--cache").map(Into::into).collect();
                command = Command::new(command.get_program());
                command.args(kept);
            }
            let output = mpi::finish(two(mpiexec, &command, &[("--images", &damaged)]));
            assert!(!output.status.success());
            let text = mpi::text(&output);
            assert!(text.contains("error: rank 1: ") && text.contains("error: rank 0: "), "{text}");
            assert!(text.contains("rank 1 failed: "), "{text}");
        }
        // A batch that cannot be shared, and processes that were told different things.
        let odd = Case::new(STEPS, 0).batches_of(3);
        let output = mpi::finish(two(mpiexec, &odd.train("odd", false), &[]));
        let text = mpi::text(&output);
        assert!(
            !output.status.success() && text.contains("a batch of 3 images cannot be shared equally by 2"),
            "{text}"
        );
        let other = Path::new("13");
        let output =
            mpi::finish(two(mpiexec, &case.train(&format!("other-{i}"), false), &[("--steps", other)]));
        let text = mpi::text(&output);
        assert!(!output.status.success() && text.contains("is 13, rank 0's is 12"), "{text}");
    }
}

/// The second process was told of NCCL, which is not there; that the first one waits for it forever is what a
/// launcher may let happen.
fn where_one_does_not_join_the_other_does_not_wait(launchers: &[PathBuf]) {
    let case = Case::new(STEPS, 0).batches_of(2);
    // Open MPI's launcher waits for ever where a process has left with an exit code before it joined.
    let of_mpich = |mpiexec: &&PathBuf| {
        let version = Command::new(mpiexec).arg("--version").output().unwrap();
        String::from_utf8_lossy(&version.stdout).contains("HYDRA")
    };
    for (i, mpiexec) in launchers.iter().filter(of_mpich).enumerate() {
        let command = case.train(&format!("alone-{i}"), false);
        let mut both = mpi::mpiexec(mpiexec);
        both.args(["-n", "1"]).arg(command.get_program()).args(command.get_args());
        both.args([":", "-n", "1"]).arg(command.get_program()).args(command.get_args());
        both.args(["--engine", "nccl"]);
        let output = mpi::finish(both);
        assert!(
            !output.status.success() && mpi::text(&output).contains("error: rank 1: "),
            "{}",
            mpi::text(&output)
        );
    }
}

/// The program as one of two processes of a launcher that is not there.
fn one_of_two(mut command: Command) -> Output {
    command.envs([("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")]).output().unwrap()
}

#[test]
fn nothing_trains_twice_unnoticed() {
    let case = Case::new(2, 0);
    let output = one_of_two(case.train("torchrun", false));
    assert!(!output.status.success() && said(&output).contains("mpiexec"), "{}", said(&output));
    assert!(!case.path("torchrun").exists());
    let mut half = case.train("half", false);
    let output = half.env("WORLD_SIZE", "2").output().unwrap();
    assert!(!output.status.success() && said(&output).contains("RANK"), "{}", said(&output));
    let mut none = case.train("none", false);
    none.args(["--engine", "none"]);
    assert!(one_of_two(none).status.success());

    let out = case.path("again");
    let scenes = ["data", "scenes", "--count", "1", "--out", out.to_str().unwrap()];
    for arguments in [&scenes[..], &["reproduce", "detection", "--scale", "mini", "--smoke"]] {
        let output = one_of_two(command(arguments));
        assert!(!output.status.success() && said(&output).contains("in one process"), "{}", said(&output));
    }
    assert!(!out.exists());
    let output = one_of_two(command(&["doctor"]));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("MPI ") && printed.contains("NCCL "), "{printed}");
}
