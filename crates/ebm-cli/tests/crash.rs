//! A training that is killed, asked to stop, or started twice (goals R1, R5, R23 of docs/reliability.md), as
//! whole processes.

use crate::common::program::said;
use crate::common::training::{Case, logged, wait_for_steps};

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ebm_base::Key;
use ebm_testing::signal;
use rand::Rng;

const STEPS: usize = 30;

#[test]
fn killed_at_any_time_and_resumed_a_run_ends_with_the_same_bytes() {
    let kills_wanted = std::env::var("EBM_KILLS").map_or(20, |text| text.parse().unwrap());
    let case = Case::new(STEPS, 5);
    let whole = case.uninterrupted();
    let mut rng = Key::new(1).rng();
    let (mut kills, mut round) = (0, 0);
    while kills < kills_wanted {
        let run = format!("killed-{round}");
        let mut before = 0;
        loop {
            let mut child = case.train(&run, before > 0 || case.path(&run).exists()).spawn().unwrap();
            // Often between steps, sometimes while it starts.
            if kills < kills_wanted && rng.random_bool(0.8) {
                let further = rng.random_range(1..8);
                let start = Instant::now();
                while logged(&case.path(&run)) < (before + further).min(STEPS)
                    && child.try_wait().unwrap().is_none()
                    && start.elapsed() < Duration::from_secs(60)
                {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            std::thread::sleep(Duration::from_millis(rng.random_range(0..40)));
            if kills < kills_wanted && child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                kills += 1;
                child.wait().unwrap();
                before = logged(&case.path(&run));
                continue;
            }
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
            break;
        }
        assert!(case.branch(&run) == whole, "round {round}");
        round += 1;
    }
}

#[test]
fn the_first_signal_saves_and_the_second_leaves_at_once() {
    let case = Case::new(STEPS, 5);
    let whole = case.uninterrupted();
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let child = case.train(name, false).spawn().unwrap();
        wait_for_steps(&case.path(name), 3);
        assert!(signal(child.id(), name));
        let start = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains("--resume"), "{}", said(&output));
        // Not all of it, as an uninterrupted run says.
        assert!(said(&output).contains(&format!(" of {STEPS} done")), "{}", said(&output));
        let output = case.train(name, true).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("going on from step"), "{}", said(&output));
        assert!(case.branch(name) == whole);
    }
    let child = case.train("twice", false).spawn().unwrap();
    wait_for_steps(&case.path("twice"), 2);
    let start = Instant::now();
    assert!(signal(child.id(), "TERM"));
    assert!(signal(child.id(), "TERM"));
    let output = child.wait_with_output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
}

#[test]
fn a_run_outlives_a_terminal_whose_end_it_was_told_to_ignore() {
    let case = Case::new(STEPS, 5);
    let whole = case.uninterrupted();
    let train = case.train("nohup", false);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(train.get_program()).args(train.get_args());
    let child = shell.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_steps(&case.path("nohup"), 3);
    assert!(signal(child.id(), "HUP"));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(case.branch("nohup") == whole);
}

/// A training continues when its outputs are closed or full, and its result exists before it is announced.
#[test]
fn a_closed_or_full_stream_costs_no_work() {
    let case = Case::new(STEPS, 5);
    let whole = case.uninterrupted();
    let cases = [
        ("full-stderr", "exec \"$@\" 2>/dev/full", 0),
        ("no-stderr", "exec \"$@\" 2>&-", 0),
        ("nobody-reads-stderr", "\"$@\" 2>&1 >/dev/null | true", 0),
        ("full-stdout", "exec \"$@\" >/dev/full", 6),
        ("no-stdout", "exec \"$@\" >&-", 0),
        ("neither", "exec \"$@\" >/dev/full 2>/dev/full", 6),
    ];
    for (name, script, code) in cases {
        let train = case.train(name, false);
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(train.get_program()).args(train.get_args());
        let output = shell.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {}", said(&output));
        assert!(!said(&output).contains("panicked"), "{name}: {}", said(&output));
        assert!(case.branch(name) == whole, "{name}");
    }
}

#[test]
fn a_second_process_on_a_run_is_told_who_holds_it() {
    let case = Case::new(STEPS, 5);
    let mut first = case.train("shared", false).spawn().unwrap();
    wait_for_steps(&case.path("shared"), 1);
    let second = case.train("shared", true).output().unwrap();
    assert_eq!(second.status.code(), Some(1), "{}", said(&second));
    assert!(said(&second).contains(&first.id().to_string()), "{}", said(&second));
    first.kill().unwrap();
    first.wait().unwrap();

    // Nor does anything start over what is there without being told to.
    let again = case.train("shared", false).output().unwrap();
    assert!(said(&again).contains("already holds a run"), "{}", said(&again));
}
