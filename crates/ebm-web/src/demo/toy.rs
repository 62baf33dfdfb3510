//! The tab "Toy": a density that learns the problem of Figure 2 step by step.

use std::time::{Duration, Instant};

use ebm_base::Key;
use ebm_core::{Grid, GridDensity};
use ebm_toy::dataset::RANGE;
use ebm_toy::evaluation::Truth;
use ebm_toy::{Course, Experiment, Points, Problem, training_points};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Recent, Result, density, shade};
use crate::server::Refusal;

/// The settings of Figure 2, and the latest trainings.
pub(super) struct Toy {
    experiment: Experiment,
    known: Recent<Live>,
}

/// A training that continues with each request.
struct Live {
    problem: Option<Problem>,
    truth: Option<Truth>,
    course: Course,
    added: usize,
}

/// Request for a new training.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    /// Problem whose points are used; none for the added points alone.
    problem: Option<Problem>,
    method: String,
    /// Added points (x, y).
    added: Vec<[f32; 2]>,
}

/// Request for the continuation of a training.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Train {
    training: u64,
    /// Number of epochs since the beginning after which to stop.
    epochs: usize,
}

/// Request for another training point.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Add {
    training: u64,
    x: f32,
    y: f32,
}

/// Request for p(y | x) at one x.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    training: u64,
    x: f64,
}

/// Largest number of added points.
const ADDED: usize = 2000;
/// Largest number of epochs of a training.
const EPOCHS: usize = 1000;
/// Time for which a request trains; the current step is finished.
const SLICE: Duration = Duration::from_millis(120);
/// Number of points of the map along x and y.
const COLUMNS: usize = 97;
const ROWS: usize = 145;
/// Number of points of a curve.
const POINTS: usize = 513;
/// Number of points of each axis for the divergence, as in a small reproduction.
const KL_GRID: usize = 64;
/// Drop of log p between two modes, in nats, from which on both count.
const PROMINENCE: f64 = 0.3;

impl Toy {
    /// Creates the tab without a training.
    pub fn new(experiment: Experiment) -> Self {
        Self { experiment, known: Recent::new() }
    }

    /// Returns the problems with the names of their methods, and the methods for the user's own points alone.
    pub fn model(&self) -> Value {
        let problems: Vec<Value> = Problem::ALL
            .iter()
            .map(|&problem| {
                json!({"problem": problem, "title": problem.title(), "methods": self.methods(problem)})
            })
            .collect();
        let own = self.methods(Problem::Dataset1);
        json!({"problems": problems, "methods": own, "epochs": self.experiment.schedule.epochs})
    }

    fn methods(&self, problem: Problem) -> Vec<&str> {
        self.experiment.methods(problem).map(|method| method.name.as_str()).collect()
    }

    /// Begins a training, with the first seed of `ebm reproduce toy`.
    pub fn begin(&self, asked: &Begin) -> Result<Value> {
        let mut methods = self.experiment.methods(asked.problem.unwrap_or(Problem::Dataset1));
        let method = methods.find(|method| method.name == asked.method);
        let method = method.ok_or_else(|| Refusal::bad("there is no method of this name"))?;
        check_count(asked.added.len())?;
        let mut points = asked.problem.map(training_points).unwrap_or_default();
        for point @ [x, y] in asked.added.iter().copied() {
            check_point(point)?;
            points.x.push(x);
            points.y.push(y);
        }
        if points.x.is_empty() {
            return Err(Refusal::bad("there is nothing to learn from yet; add points"));
        }
        // The user's own points alone have their own branch of seeds.
        let name = asked.problem.map_or("data", Problem::name);
        let key = Key::new(0).split("toy").split(name).split(&method.name);
        let Points { x, y } = points.clone();
        let live = Live {
            problem: asked.problem,
            truth: asked.problem.map(|problem| Truth::new(problem, KL_GRID)),
            course: self.experiment.begin(method, points, key)?,
            added: asked.added.len(),
        };
        let state = live.state()?;
        Ok(json!({"training": self.known.add(live), "x": x, "y": y, "state": state}))
    }

    /// Continues a training for a short time.
    pub fn train(&self, asked: &Train) -> Result<Value> {
        let start = Instant::now();
        if asked.epochs > EPOCHS {
            return Err(Refusal::bad(format!("at most {EPOCHS} epochs")));
        }
        self.known.with(asked.training, |live| {
            live.course.train(|course| course.history().len() < asked.epochs && start.elapsed() < SLICE)?;
            live.state()
        })
    }

    /// Adds a training point.
    pub fn add(&self, asked: &Add) -> Result<Value> {
        check_point([asked.x, asked.y])?;
        self.known.with(asked.training, |live| {
            check_count(live.added + 1)?;
            live.added += 1;
            live.course.add(asked.x, asked.y);
            Ok(json!({"points": live.course.points().x.len()}))
        })
    }

    /// Returns p(y | x) at one x, and the true density of the problem.
    pub fn curve(&self, asked: &At) -> Result<Value> {
        check_point([asked.x as f32, 0.0])?;
        self.known.with(asked.training, |live| {
            let grid = Grid::new(RANGE[0], RANGE[1], POINTS)?;
            let densities = live.course.trained().densities(&[asked.x], &grid)?;
            let first = densities.first().ok_or_else(|| Refusal::bad("there is no density"))?;
            let truth = |problem: Problem| -> Vec<f64> {
                grid.points().iter().map(|y| problem.log_prob(asked.x, *y).exp()).collect()
            };
            let mut answer = density(first, PROMINENCE)?;
            answer["truth"] = json!(live.problem.map(truth));
            Ok(answer)
        })
    }
}

impl Live {
    /// Returns the mean loss of each finished epoch, p(y | x) divided by its largest value as rows of y over all x, and
    /// KL(truth ‖ model) in nats.
    fn state(&self) -> Result<Value> {
        let trained = self.course.trained();
        let grid = Grid::new(RANGE[0], RANGE[1], ROWS)?;
        let x = Grid::new(RANGE[0], RANGE[1], COLUMNS)?.points();
        let densities = trained.densities(&x, &grid)?;
        let highest = densities.iter().flat_map(GridDensity::log_prob_values).copied();
        let highest = highest.fold(f64::NEG_INFINITY, f64::max);
        let row = |row: usize| {
            densities.iter().map(move |density| shade((density.log_prob_values()[row] - highest).exp()))
        };
        let p: Vec<f64> = (0..ROWS).flat_map(row).collect();
        let kl = self.truth.as_ref().map(|truth| truth.divergence(|x, y| trained.log_density(x, y)));
        Ok(json!({
            "losses": self.course.history(),
            "map": {"columns": COLUMNS, "rows": ROWS, "p": p},
            "kl": kl.transpose()?,
        }))
    }
}

fn check_count(added: usize) -> Result<()> {
    let refused = || Refusal::bad(format!("at most {ADDED} points may be added"));
    (added <= ADDED).then_some(()).ok_or_else(refused)
}

/// Checks that a point is in the range in which densities are normalised.
fn check_point(point: [f32; 2]) -> Result<()> {
    let [least, greatest] = RANGE;
    let is_inside = point.iter().all(|value| (least..=greatest).contains(&f64::from(*value)));
    let refused = || Refusal::bad(format!("x and y lie between {least} and {greatest}"));
    is_inside.then_some(()).ok_or_else(refused)
}
