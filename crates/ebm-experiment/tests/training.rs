//! The course of a training, with a network that is one number and counts its steps.
#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use ebm_experiment::{
    Built, Error, Inputs, Measure, Opened, Run, Session, Training, read_validations, train,
};
use ebm_train::{
    BoxError, CheckpointData, Error as TrainError, Group, Progress, RunSpec, StepReport, TrainTask,
};

/// Adds one in every step.
struct Counter(f64);

impl TrainTask for Counter {
    type Update = ();

    fn step(&mut self, _: usize) -> Result<(StepReport, ()), BoxError> {
        Ok((StepReport { loss: self.0, grad_norm: 1.0, scalars: BTreeMap::new() }, ()))
    }

    fn apply(&mut self, _: usize, (): ()) -> Result<(), BoxError> {
        self.0 += 1.0;
        Ok(())
    }

    fn state(&self) -> Result<CheckpointData, BoxError> {
        let model = BTreeMap::from([("w".to_owned(), Tensor::new(&[self.0], &Device::Cpu)?)]);
        Ok(CheckpointData { model, optimizer: BTreeMap::new() })
    }

    fn restore(&mut self, data: CheckpointData) -> Result<(), BoxError> {
        self.0 = data.model["w"].to_vec1::<f64>()?[0];
        Ok(())
    }
}

/// Writes down what it is asked.
struct Task {
    asked: Vec<&'static str>,
    settings: [Option<&'static str>; 3],
    steps: usize,
    /// The measure by the number that the network has become.
    score: Option<fn(f64) -> f64>,
    kept: Vec<f64>,
    /// The digest of its data.
    data: &'static str,
}

impl Task {
    fn new(score: Option<fn(f64) -> f64>) -> Self {
        let settings = [Some("a = 1\nsteps = 8\n"); 3];
        Self { asked: vec![], settings, steps: 8, score, kept: vec![], data: "01" }
    }
}

impl Training for Task {
    type Error = Error;
    type Data = ();
    type Network = Counter;

    const MEASURE: Measure = Measure::LOSS;
    const LENGTH: &'static [&'static str] = &["steps"];

    fn settings(&self, data: Option<&()>) -> Result<Option<String>, Error> {
        Ok(self.settings[usize::from(data.is_some())].map(str::to_owned))
    }

    fn open(&mut self, _: &mut Session<'_>) -> Result<Opened<()>, Error> {
        self.asked.push("open");
        let inputs = Inputs::from([("data_sha256", self.data.to_owned())]);
        Ok(Opened { data: (), inputs, is_judged: self.score.is_some() })
    }

    fn build(&mut self, (): &mut (), _: &mut Session<'_>) -> Result<Built<Counter>, Error> {
        self.asked.push("build");
        let settings = self.settings[2].unwrap().to_owned();
        Ok(Built { network: Counter(0.0), settings, steps: self.steps })
    }

    fn score(&mut self, (): &mut (), network: &Counter, _: &mut Session<'_>) -> Result<f64, Error> {
        Ok(self.score.map_or(f64::NAN, |score| score(network.0)))
    }

    fn keep(&mut self, (): &(), network: &Counter) -> Result<(), Error> {
        self.kept.push(network.0);
        Ok(())
    }

    fn finish(&mut self, (): &mut (), _: &mut Session<'_>) -> Result<(), Error> {
        self.asked.push("finish");
        Ok(())
    }
}

/// Stops a training after so many of its steps.
struct StopAfter(usize);

impl Progress for StopAfter {
    fn stop_requested(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}

type Kept = Option<(usize, f64)>;

fn go(task: &mut Task, root: &Path, resume: bool, progress: &mut dyn Progress) -> Result<Kept, Error> {
    let spec = RunSpec { resume, checkpoint_every: 3, ..RunSpec::new(root, "run", "", 0, 1) };
    let mut session = Session { group: &Group::alone(), device: &Device::Cpu, progress };
    let best = train(task, &Run { spec, validate_every: 2 }, &mut session)?;
    Ok(best.map(|best| (best.step, best.value)))
}

fn refusal(result: Result<Kept, Error>) -> TrainError {
    match result {
        Err(Error::Train(error)) => error,
        other => unreachable!("{other:?}"),
    }
}

fn from_five(w: f64) -> f64 {
    (w - 5.0).powi(2)
}

#[test]
fn the_first_of_the_best_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut task = Task::new(Some(from_five));
    // 9, 1, 1 and 9.
    assert_eq!(go(&mut task, dir.path(), false, &mut ()).unwrap(), Some((4, 1.0)));
    assert_eq!((task.kept, task.asked), (vec![2.0, 4.0], vec!["open", "build", "finish"]));
    let steps: Vec<usize> =
        read_validations(&dir.path().join("run")).unwrap().iter().map(|v| v.step).collect();
    assert_eq!(steps, [2, 4, 6, 8]);
}

/// Writes down what it is shown.
#[derive(Default)]
struct Shown(Vec<String>);

impl Progress for Shown {
    fn begin(&mut self, stage: &str, total: usize) {
        self.0.push(format!("{stage}: {total}"));
    }

    fn advance(&mut self, done: usize, _: &str) {
        self.0.push(done.to_string());
    }

    fn message(&mut self, text: &str) {
        self.0.push(text.split(':').next().unwrap().to_owned());
    }
}

#[test]
fn validations_do_not_make_several_trainings_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut shown = Shown::default();
    go(&mut Task::new(Some(from_five)), dir.path(), false, &mut shown).unwrap();
    let part = |first: usize| {
        [
            "training run: 8".to_owned(),
            first.to_string(),
            (first + 1).to_string(),
            format!("after {} steps", first + 1),
        ]
    };
    let expected = [1, 3, 5, 7].into_iter().flat_map(part).chain(["kept".to_owned()]);
    assert_eq!(shown.0, expected.collect::<Vec<_>>());
}

#[test]
fn without_validation_data_the_last_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut task = Task::new(None);
    assert_eq!(go(&mut task, dir.path(), false, &mut ()).unwrap(), None);
    assert_eq!(task.kept, [8.0]);
    // What is no number is kept where there is nothing else, and never again.
    let dir = tempfile::tempdir().unwrap();
    let mut task = Task::new(Some(|w| if w == 6.0 { 3.0 } else { f64::NAN }));
    assert_eq!(go(&mut task, dir.path(), false, &mut ()).unwrap(), Some((6, 3.0)));
    assert_eq!(task.kept, [2.0, 6.0]);
}

#[test]
fn what_cannot_be_trained_is_refused_before_anything_slow() {
    let dir = tempfile::tempdir().unwrap();
    go(&mut Task::new(None), dir.path(), false, &mut ()).unwrap();
    let other = Some("a = 2\nsteps = 8\n");
    let same = Some("a = 1\nsteps = 8\n");
    type Case = ([Option<&'static str>; 3], bool, &'static [&'static str]);
    let cases: [Case; 5] = [
        ([same; 3], false, &[]),
        ([None, None, same], false, &[]),
        ([other; 3], true, &[]),
        ([None, other, other], true, &["open"]),
        ([None, None, other], true, &["open", "build"]),
    ];
    for (settings, resume, asked) in cases {
        let mut task = Task { settings, ..Task::new(None) };
        let error = refusal(go(&mut task, dir.path(), resume, &mut ()));
        let part = if resume { "was made with" } else { "already holds a run" };
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!((task.asked, task.kept), (asked.to_vec(), vec![]));
    }
}

#[test]
fn a_run_goes_on_with_its_own_inputs_alone() {
    let dir = tempfile::tempdir().unwrap();
    go(&mut Task::new(None), dir.path(), false, &mut ()).unwrap();
    let mut other = Task { data: "02", ..Task::new(None) };
    let error = refusal(go(&mut other, dir.path(), true, &mut ())).to_string();
    assert!(error.contains("inputs.data_sha256 = \"01\" (here: \"02\")"), "{error}");
    assert_eq!((other.asked, other.kept), (vec!["open"], vec![]));
    // It may lie elsewhere.
    let moved = tempfile::tempdir().unwrap();
    std::fs::rename(dir.path().join("run"), moved.path().join("run")).unwrap();
    go(&mut Task::new(None), moved.path(), true, &mut ()).unwrap();
}

#[test]
fn a_stopped_run_goes_on_and_a_finished_one_becomes_longer() {
    let dir = tempfile::tempdir().unwrap();
    for stop in 1..8 {
        let root = dir.path().join(stop.to_string());
        std::fs::create_dir(&root).unwrap();
        let mut task = Task::new(Some(from_five));
        let stopped = refusal(go(&mut task, &root, false, &mut StopAfter(stop)));
        assert!(matches!(stopped, TrainError::Interrupted { .. }), "{stopped}");
        let mut again = Task::new(Some(from_five));
        assert_eq!(go(&mut again, &root, true, &mut ()).unwrap(), Some((4, 1.0)));
        assert_eq!([task.kept, again.kept].concat(), [2.0, 4.0], "stopped after {stop} steps");
        // It is over: nothing is trained or kept, only completed.
        let mut over = Task::new(Some(from_five));
        assert_eq!(go(&mut over, &root, true, &mut ()).unwrap(), Some((4, 1.0)));
        assert_eq!((over.kept, over.asked.last()), (vec![], Some(&"finish")));
    }
    // So does one with nothing to judge by, at whatever checkpoint.
    for stop in 1..8 {
        let root = dir.path().join(format!("unjudged-{stop}"));
        std::fs::create_dir(&root).unwrap();
        let stopped = refusal(go(&mut Task::new(None), &root, false, &mut StopAfter(stop)));
        assert!(matches!(stopped, TrainError::Interrupted { .. }), "{stopped}");
        let mut again = Task::new(None);
        assert_eq!(go(&mut again, &root, true, &mut ()).unwrap(), None);
        assert_eq!(again.kept, [8.0]);
    }
    let longer = [Some("a = 1\nsteps = 12\n"); 3];
    let mut task = Task { settings: longer, steps: 12, ..Task::new(Some(|w| -w)) };
    assert_eq!(go(&mut task, &dir.path().join("1"), true, &mut ()).unwrap(), Some((12, -12.0)));
    assert_eq!(task.kept, [10.0, 12.0]);
}

#[test]
fn a_measure_knows_which_way_is_better() {
    assert!(Measure::LOSS.is_better(1.0, 2.0) && !Measure::LOSS.is_better(2.0, 1.0));
    assert!(Measure::AP.is_better(0.5, 0.4) && !Measure::AP.is_better(0.4, 0.4));
    for measure in [Measure::LOSS, Measure::AP] {
        assert!(measure.is_better(0.0, f64::NAN) && !measure.is_better(f64::NAN, 0.0));
    }
}
