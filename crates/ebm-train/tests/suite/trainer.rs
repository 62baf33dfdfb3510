//! The loop on a small noisy quadratic: closed form, exact resume, the guard, refusals.

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_train::{
    BoxError, CheckpointData, Error, Progress, RunSpec, StepReport, TrainTask, load_latest, read_metrics,
    train_run,
};
use proptest::prelude::*;
use rand::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Gradient descent with momentum on ½‖w − 1‖² with noise; every draw derives from the step.
struct Quadratic {
    weight: Tensor,
    momentum: Tensor,
    noise: f64,
    non_finite_at: Vec<usize>,
    poison: f64,
    only_gradient: bool,
    fail_at: Option<usize>,
}

impl Quadratic {
    fn new() -> Self {
        let weight = Tensor::new(&[4.0, -3.0, 2.5], &Device::Cpu).unwrap();
        let momentum = weight.zeros_like().unwrap();
        Self {
            weight,
            momentum,
            noise: 0.1,
            non_finite_at: Vec::new(),
            poison: f64::NAN,
            only_gradient: false,
            fail_at: None,
        }
    }
}

impl TrainTask for Quadratic {
    type Update = Tensor;

    fn step(&mut self, step: usize) -> Result<(StepReport, Tensor), BoxError> {
        if self.fail_at == Some(step) {
            return Err("the power went out".into());
        }
        let mut rng = Key::new(1).split("noise").index(step as u64).rng();
        let noise: Vec<f64> = (0..3).map(|_| self.noise * rng.random_range(-1.0..1.0)).collect();
        let residual = (&self.weight - 1.0)?;
        let gradient = (&residual + Tensor::new(noise, &Device::Cpu)?)?;
        let half_square =
            |t: &Tensor| -> Result<f64, BoxError> { Ok(t.sqr()?.sum_all()?.to_scalar::<f64>()? / 2.0) };
        let bad = self.non_finite_at.contains(&step);
        let report = StepReport {
            loss: if bad && !self.only_gradient { self.poison } else { half_square(&residual)? },
            grad_norm: if bad { self.poison } else { (2.0 * half_square(&gradient)?).sqrt() },
            scalars: BTreeMap::from([("lr".to_string(), rate(step))]),
        };
        Ok((report, if bad { (gradient * self.poison)? } else { gradient }))
    }

    fn apply(&mut self, step: usize, gradient: Tensor) -> Result<(), BoxError> {
        self.momentum = ((&self.momentum * 0.9)? + gradient)?;
        self.weight = (&self.weight - (&self.momentum * rate(step))?)?;
        Ok(())
    }

    fn state(&self) -> Result<CheckpointData, BoxError> {
        let map = |tensor: &Tensor| BTreeMap::from([("w".to_string(), tensor.clone())]);
        Ok(CheckpointData { model: map(&self.weight), optimizer: map(&self.momentum) })
    }

    fn restore(&mut self, mut data: CheckpointData) -> Result<(), BoxError> {
        self.weight = data.model.remove("w").ok_or("no w")?;
        self.momentum = data.optimizer.remove("w").ok_or("no momentum")?;
        Ok(())
    }
}

fn rate(step: usize) -> f64 {
    0.1 / (1.0 + step as f64 / 10.0)
}

/// Writes down what it is told; stops after so many steps.
#[derive(Default)]
struct Recorder {
    events: Vec<String>,
    stop_after: Option<usize>,
    steps: usize,
}

impl Progress for Recorder {
    fn begin(&mut self, stage: &str, total: usize) {
        self.events.push(format!("{stage}: {total}"));
    }

    fn resumed(&mut self, done: usize) {
        self.events.push(format!("resumed {done}"));
    }

    fn advance(&mut self, done: usize, note: &str) {
        assert!(note.starts_with("loss "), "{note}");
        self.steps += 1;
        self.events.push(format!("done {done}"));
    }

    fn end(&mut self) {
        self.events.push("end".to_owned());
    }

    fn message(&mut self, text: &str) {
        self.events.push(text.to_owned());
    }

    fn stop_requested(&mut self) -> bool {
        self.stop_after == Some(self.steps)
    }
}

fn spec(root: &Path, steps: usize, every: usize) -> RunSpec<'_> {
    RunSpec { checkpoint_every: every, resume: true, ..RunSpec::new(root, "run", "lr = 0.1\n", steps, 1) }
}

/// Trains in the folder `run`; where it was stopped, after how many steps.
fn go(
    run: &Path,
    steps: usize,
    every: usize,
    task: &mut Quadratic,
    progress: &mut dyn Progress,
) -> Result<Option<usize>, Error> {
    match train_run(&spec(run.parent().unwrap(), steps, every), task, progress) {
        Err(Error::Interrupted { step, path }) => {
            assert_eq!(path, run);
            Ok(Some(step))
        }
        other => other.map(|_| None),
    }
}

fn new_run(root: &Path) -> PathBuf {
    root.join("run")
}

fn log_of(run: &Path) -> PathBuf {
    run.join("metrics.jsonl")
}

fn checkpoints(run: &Path) -> PathBuf {
    run.join("checkpoints")
}

/// The steps of the checkpoints that are there.
fn saved(run: &Path) -> Vec<usize> {
    let names = fs::read_dir(checkpoints(run)).unwrap().map(|entry| entry.unwrap().file_name());
    let step = |name: std::ffi::OsString| name.to_str()?.strip_prefix("step-")?.parse().ok();
    let mut steps: Vec<usize> = names.filter_map(step).collect();
    steps.sort_unstable();
    steps
}

/// The files that must not depend on interruptions, for 23 steps.
fn fingerprint(run: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let last = Path::new("checkpoints/step-00000023");
    let files = ["model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"];
    let paths = files.iter().map(|file| last.join(file));
    paths
        .chain(["metrics.jsonl".into()])
        .map(|path| (path.clone(), fs::read(run.join(&path)).unwrap()))
        .collect()
}

fn uninterrupted(every: usize) -> (tempfile::TempDir, Vec<(PathBuf, Vec<u8>)>) {
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    go(&run, 23, every, &mut Quadratic::new(), &mut ()).unwrap();
    let files = fingerprint(&run);
    (root, files)
}

#[test]
fn one_step_without_noise_is_the_closed_form() {
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut task = Quadratic { noise: 0.0, ..Quadratic::new() };
    go(&run, 1, 0, &mut task, &mut ()).unwrap();
    // w − 0.1·(w − 1) from (4, −3, 2.5); loss ½(9 + 16 + 2.25), norm √27.25.
    for (found, expected) in task.weight.to_vec1::<f64>().unwrap().into_iter().zip([3.7, -2.6, 2.35]) {
        assert!((found - expected).abs() < 1e-14);
    }
    let record = &read_metrics(&log_of(&run)).unwrap()[0];
    assert_eq!((record.step, record.loss, record.skipped), (0, Some(13.625), false));
    assert!((record.grad_norm.unwrap() - 27.25f64.sqrt()).abs() < 1e-14);
    assert_eq!(record.scalars["lr"], Some(0.1));
}

#[test]
fn events_come_in_order_and_checkpoints_on_time() {
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut recorder = Recorder::default();
    assert_eq!(go(&run, 5, 2, &mut Quadratic::new(), &mut recorder).unwrap(), None);
    let expected = ["training run: 5", "done 1", "done 2", "done 3", "done 4", "done 5", "end"];
    assert_eq!(recorder.events, expected);
    assert_eq!(saved(&run), [2, 4, 5]);

    // Nothing is left to do: nothing is done.
    let mut recorder = Recorder::default();
    go(&run, 5, 2, &mut Quadratic::new(), &mut recorder).unwrap();
    let from = format!("going on from step 5, {}", checkpoints(&run).join("step-00000005").display());
    assert_eq!(recorder.events, ["training run: 5", "resumed 5", &from, "end"]);
    assert_eq!(read_metrics(&log_of(&run)).unwrap().len(), 5);
}

#[test]
fn a_stopped_run_resumes_to_identical_bytes() {
    let (_root, expected) = uninterrupted(5);
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut recorder = Recorder { stop_after: Some(7), ..Default::default() };
    assert_eq!(go(&run, 23, 5, &mut Quadratic::new(), &mut recorder).unwrap(), Some(7));
    assert_eq!(saved(&run), [5, 7]);
    go(&run, 23, 5, &mut Quadratic::new(), &mut ()).unwrap();
    assert!(fingerprint(&run) == expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_crashed_run_resumes_to_identical_bytes(
        every in 1..8usize, crashes in prop::collection::vec(0..23usize, 1..4), torn in 0..40usize,
    ) {
        let (_root, expected) = uninterrupted(every);
        let root = tempfile::tempdir().unwrap();
        let run = new_run(root.path());
        for crash in crashes {
            let mut task = Quadratic { fail_at: Some(crash), ..Quadratic::new() };
            match go(&run, 23, every, &mut task, &mut ()) {
                Err(Error::Task { step, source }) => {
                    prop_assert_eq!(step, crash);
                    prop_assert_eq!(source.to_string(), "the power went out");
                }
                other => prop_assert!(other.is_ok(), "{:?}", other),
            }
            // The log's last line is torn as well.
            let mut log = fs::read(log_of(&run)).unwrap();
            log.extend_from_slice(&b"{\"step\":99,\"loss\":1.25,\"grad_norm\":3.5,"[..torn]);
            fs::write(log_of(&run), log).unwrap();
        }
        go(&run, 23, every, &mut Quadratic::new(), &mut ()).unwrap();
        prop_assert!(fingerprint(&run) == expected);
    }
}

#[test]
fn a_damaged_checkpoint_costs_an_interval_and_nothing_else() {
    let (_root, expected) = uninterrupted(5);
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut task = Quadratic { fail_at: Some(17), ..Quadratic::new() };
    go(&run, 23, 5, &mut task, &mut ()).unwrap_err();
    let newest = checkpoints(&run).join("step-00000015/model.safetensors");
    let mut bytes = fs::read(&newest).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&newest, bytes).unwrap();

    let mut recorder = Recorder::default();
    go(&run, 23, 5, &mut Quadratic::new(), &mut recorder).unwrap();
    assert!(recorder.events[1].starts_with("skipped") && recorder.events[1].contains("step-00000015"));
    assert_eq!(recorder.events[2], "resumed 10");
    assert!(fingerprint(&run) == expected);
}

#[test]
fn a_shortened_log_is_a_warning() {
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    go(&run, 4, 2, &mut Quadratic::new(), &mut ()).unwrap();
    fs::write(log_of(&run), b"").unwrap();
    let mut recorder = Recorder::default();
    go(&run, 6, 2, &mut Quadratic::new(), &mut recorder).unwrap();
    assert!(recorder.events[1].contains("metrics.jsonl: 0 of"), "{}", recorder.events[1]);
    assert_eq!(read_metrics(&log_of(&run)).unwrap().len(), 2);
}

#[test]
fn a_non_finite_step_changes_nothing_and_delays_the_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut task = Quadratic { non_finite_at: vec![3], ..Quadratic::new() };
    let mut recorder = Recorder::default();
    go(&run, 4, 2, &mut task, &mut recorder).unwrap();
    assert_eq!(recorder.events[4], "step 3: loss NaN is not finite; the update was skipped");
    let after = task.weight.to_vec1::<f64>().unwrap();
    let mut three = Quadratic::new();
    for step in 0..3 {
        let (_, update) = three.step(step).unwrap();
        three.apply(step, update).unwrap();
    }
    assert_eq!(after, three.weight.to_vec1::<f64>().unwrap());
    let records = read_metrics(&log_of(&run)).unwrap();
    assert!(records[3].skipped && records[3].loss.is_none() && !records[2].skipped);
    let state = load_latest(&checkpoints(&run)).unwrap().checkpoint.state;
    assert_eq!(state.guard_hits, [3]);

    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut task = Quadratic { non_finite_at: vec![1, 2], ..Quadratic::new() };
    let mut recorder = Recorder::default();
    go(&run, 6, 2, &mut task, &mut recorder).unwrap();
    assert_eq!(saved(&run), [4, 6]);
}

#[test]
fn wherever_it_strikes_nothing_poisoned_is_kept() {
    const STEPS: usize = 100;
    for at in 0..STEPS {
        let root = tempfile::tempdir().unwrap();
        let run = new_run(root.path());
        let poison = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][at % 3];
        let hit =
            || Quadratic { non_finite_at: vec![at], poison, only_gradient: at % 2 == 0, ..Quadratic::new() };
        let mut task = hit();
        // The step after the hit is the last: were the guard late, its checkpoint would hold what it did.
        go(&run, at + 2, STEPS + 1, &mut task, &mut ()).unwrap();
        let skipped: Vec<usize> =
            read_metrics(&log_of(&run)).unwrap().iter().filter(|r| r.skipped).map(|r| r.step).collect();
        assert_eq!(skipped, [at]);
        let saved = load_latest(&checkpoints(&run)).unwrap().checkpoint;
        let finite = |tensor: &Tensor| tensor.to_vec1::<f64>().unwrap().iter().all(|value| value.is_finite());
        assert!(saved.data.model.values().chain(saved.data.optimizer.values()).all(finite), "{at}");
        assert_eq!(saved.state.guard_hits, [at]);
    }
}

#[test]
fn the_third_hit_ends_the_run_also_across_a_resume() {
    let bad = || Quadratic { non_finite_at: vec![3, 8, 12], ..Quadratic::new() };
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut recorder = Recorder { stop_after: Some(10), ..Default::default() };
    go(&run, 23, 5, &mut bad(), &mut recorder).unwrap();
    let mut task = bad();
    let error = go(&run, 23, 5, &mut task, &mut ()).unwrap_err();
    let Error::NonFinite(12, reason) = &error else { panic!("{error}") };
    assert!(reason.contains("steps [3, 8, 12]"), "{reason}");
    assert!(task.weight.to_vec1::<f64>().unwrap().iter().all(|value| value.is_finite()));
    // The last checkpoint is the one before, and the log tells what happened.
    assert_eq!(load_latest(&checkpoints(&run)).unwrap().checkpoint.state.step, 10);
    assert!(read_metrics(&log_of(&run)).unwrap().last().unwrap().skipped);
}

#[test]
fn a_poisoned_state_is_not_saved() {
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    let mut task = Quadratic::new();
    go(&run, 2, 2, &mut task, &mut ()).unwrap();
    task.momentum = Tensor::new(&[f64::NAN, 0.0, 0.0], &Device::Cpu).unwrap();
    let data = task.state().unwrap();
    // Taken up from elsewhere, not from a checkpoint: only saving can notice.
    struct Poisoned(Quadratic, CheckpointData);
    impl TrainTask for Poisoned {
        type Update = Tensor;
        fn step(&mut self, step: usize) -> Result<(StepReport, Tensor), BoxError> {
            self.0.step(step)
        }
        fn apply(&mut self, _step: usize, _update: Tensor) -> Result<(), BoxError> {
            self.0.restore(self.1.clone())
        }
        fn state(&self) -> Result<CheckpointData, BoxError> {
            self.0.state()
        }
        fn restore(&mut self, data: CheckpointData) -> Result<(), BoxError> {
            self.0.restore(data)
        }
    }
    let mut poisoned = Poisoned(Quadratic::new(), data);
    let error = train_run(&spec(root.path(), 4, 1), &mut poisoned, &mut ()).unwrap_err();
    assert!(matches!(error, Error::NonFinite(3, _)), "{error}");
    assert_eq!(load_latest(&checkpoints(&run)).unwrap().checkpoint.state.step, 2);
}

#[test]
fn checkpoints_that_do_not_fit_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = new_run(root.path());
    go(&run, 4, 2, &mut Quadratic::new(), &mut ()).unwrap();
    let refused = |spec: &RunSpec<'_>, part: &str| {
        let error = train_run(spec, &mut Quadratic::new(), &mut ()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let (before, here) = (fs::read(log_of(&run)).unwrap(), spec(root.path(), 4, 2));
    refused(&RunSpec { seed: 2, ..here }, "was written with seed 1, the run has 2");
    refused(&RunSpec { steps: 3, ..here }, "has 4 completed steps, more than 3");
    refused(&RunSpec { resume: false, ..here }, "already holds a run");
    let other = RunSpec { config: "lr = 0.2\n", ..here };
    refused(&other, "was made with lr = 0.1 (here: 0.2)");
    fs::write(run.join("config.toml"), other.config).unwrap();
    refused(&other, "was written with configuration digest");
    fs::remove_file(run.join("config.toml")).unwrap();
    refused(&RunSpec { resume: false, ..here }, "already holds checkpoints");
    assert_eq!(fs::read(log_of(&run)).unwrap(), before);
}
