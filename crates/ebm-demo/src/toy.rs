//! The tab "Toy": the problem of Figure 2, on which a density learns while one watches.

use std::time::{Duration, Instant};

use ebm_core::{Grid, GridDensity};
use ebm_seed::Key;
use ebm_server::Refusal;
use ebm_toy::dataset::RANGE;
use ebm_toy::evaluation::Truth;
use ebm_toy::{Course, Experiment, Points, Problem, training_points};
use serde::{Deserialize, Serialize};

use crate::boxes::since;
use crate::density::Density;
use crate::error::Result;
use crate::limits;
use crate::recent::Recent;

/// The settings of Figure 2, and the trainings that go on.
pub struct Toy {
    experiment: Experiment,
    known: Recent<Live>,
}

/// A training that goes on while the page asks it to.
struct Live {
    problem: Option<Problem>,
    truth: Option<Truth>,
    course: Course,
    added: usize,
}

/// What there is to choose.
#[derive(Serialize)]
pub struct Model {
    problems: Vec<Choice>,
    /// The methods for points of one's own alone.
    methods: Vec<String>,
    /// Of the settings.
    epochs: usize,
    most_epochs: usize,
    /// Where x and y lie.
    range: [f64; 2],
}

/// A problem, and its methods by name.
#[derive(Serialize)]
struct Choice {
    problem: Problem,
    title: &'static str,
    methods: Vec<String>,
}

/// A training that is to begin.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// None: the points that are added alone.
    problem: Option<Problem>,
    method: String,
    seed: u64,
    /// Pairs of x and y.
    added: Vec<[f32; 2]>,
}

/// A training that has begun.
#[derive(Serialize)]
pub struct Begun {
    /// Its number in later requests.
    training: u64,
    x: Vec<f32>,
    y: Vec<f32>,
    #[serde(flatten)]
    state: State,
}

/// How far a training is to go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Train {
    training: u64,
    /// Until so many are over, since the beginning …
    epochs: usize,
    /// … or so much time of this request.
    milliseconds: u64,
}

/// How far a training is.
#[derive(Serialize)]
pub struct State {
    /// The mean loss of each epoch that is over.
    losses: Vec<f64>,
    map: Map,
    /// KL(truth ‖ model) in nats on a grid of [`KL_GRID`] points along each axis.
    kl: Option<f64>,
    milliseconds: f64,
}

/// p(y | x) in rows of y, of which each has all x.
#[derive(Serialize)]
struct Map {
    columns: usize,
    rows: usize,
    /// Over the largest.
    p: Vec<f32>,
    largest: f64,
}

/// A point that is trained on from now on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Add {
    training: u64,
    x: f32,
    y: f32,
}

/// How many points there are.
#[derive(Serialize)]
pub struct Added {
    points: usize,
}

/// An x at which p(y | x) is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    training: u64,
    x: f64,
}

/// p(y | x) at one x.
#[derive(Serialize)]
pub struct Curve {
    #[serde(flatten)]
    density: Density,
    /// The density that the points were drawn from.
    truth: Option<Vec<f64>>,
}

/// Points of the map along x and y.
const COLUMNS: usize = 97;
const ROWS: usize = 145;
/// Points of a curve.
const POINTS: usize = 513;
/// Points of each axis for the divergence, as a reproduction in small has.
const KL_GRID: usize = 64;
/// How far, in nats, log p falls between two modes that count.
const PROMINENCE: f64 = 0.3;
/// The name of points of one's own alone, in the tree of seeds.
const OWN: &str = "data";

impl Toy {
    /// With no training yet.
    pub fn new(experiment: Experiment) -> Self {
        Self { experiment, known: Recent::new(limits::TRAININGS, "training") }
    }

    /// What there is to choose.
    pub fn model(&self) -> Model {
        let choice = |problem: Problem| Choice {
            problem,
            title: problem.title(),
            methods: self.methods(Some(problem)),
        };
        Model {
            problems: Problem::ALL.map(choice).into(),
            methods: self.methods(None),
            epochs: self.experiment.schedule.epochs,
            most_epochs: limits::EPOCHS,
            range: RANGE,
        }
    }

    fn methods(&self, problem: Option<Problem>) -> Vec<String> {
        let problem = problem.unwrap_or(Problem::Dataset1);
        self.experiment.methods(problem).map(|method| method.name.clone()).collect()
    }

    /// Begins a training, with the seeds of `ebm reproduce toy`.
    pub fn begin(&self, asked: &Begin) -> Result<Begun> {
        let start = Instant::now();
        let mut methods = self.experiment.methods(asked.problem.unwrap_or(Problem::Dataset1));
        let method = methods.find(|method| method.name == asked.method);
        let method = method.ok_or_else(|| Refusal::bad("there is no method of this name"))?;
        if asked.added.len() > limits::ADDED {
            return Err(Refusal::bad(format!("at most {} points may be added", limits::ADDED)).into());
        }
        let mut points = asked.problem.map(training_points).unwrap_or_default();
        for [x, y] in &asked.added {
            check_point([*x, *y])?;
            points.x.push(*x);
            points.y.push(*y);
        }
        if points.x.is_empty() {
            return Err(Refusal::bad("there is nothing to learn from yet; add points").into());
        }
        let name = asked.problem.map_or(OWN, Problem::name);
        let key = Key::new(asked.seed).split("toy").split(name).split(&method.name);
        let Points { x, y } = points.clone();
        let live = Live {
            problem: asked.problem,
            truth: asked.problem.map(|problem| Truth::new(problem, KL_GRID)),
            course: self.experiment.begin(method, points, key)?,
            added: asked.added.len(),
        };
        let state = live.state(start)?;
        Ok(Begun { training: self.known.add(live), x, y, state })
    }

    /// Trains for a while.
    pub fn train(&self, asked: &Train) -> Result<State> {
        let start = Instant::now();
        if asked.epochs > limits::EPOCHS {
            return Err(Refusal::bad(format!("at most {} epochs", limits::EPOCHS)).into());
        }
        let time = Duration::from_millis(asked.milliseconds).min(limits::SLICE);
        self.known.with(asked.training, |live| {
            live.course
                .train(|training| training.history().len() < asked.epochs && start.elapsed() < time)?;
            live.state(start)
        })
    }

    /// Adds a point to what a training learns from.
    pub fn add(&self, asked: &Add) -> Result<Added> {
        check_point([asked.x, asked.y])?;
        self.known.with(asked.training, |live| {
            if live.added == limits::ADDED {
                return Err(Refusal::bad(format!("at most {} points may be added", limits::ADDED)).into());
            }
            live.added += 1;
            live.course.add(asked.x, asked.y);
            Ok(Added { points: live.course.training().points().x.len() })
        })
    }

    /// p(y | x) at one x.
    pub fn curve(&self, asked: &At) -> Result<Curve> {
        if !(RANGE[0]..=RANGE[1]).contains(&asked.x) {
            return Err(outside().into());
        }
        self.known.with(asked.training, |live| {
            let grid = Grid::new(RANGE[0], RANGE[1], POINTS)?;
            let densities = live.course.trained().densities(&[asked.x], &grid)?;
            let density = densities.first().ok_or_else(|| Refusal::bad("there is no density"))?;
            let truth = live
                .problem
                .map(|problem| grid.points().iter().map(|y| problem.log_prob(asked.x, *y).exp()).collect());
            Ok(Curve { density: Density::of(density, PROMINENCE)?, truth })
        })
    }
}

impl Live {
    fn state(&self, start: Instant) -> Result<State> {
        let (trained, losses) = (self.course.trained(), self.course.training().history().to_vec());
        let grid = Grid::new(RANGE[0], RANGE[1], ROWS)?;
        let x = Grid::new(RANGE[0], RANGE[1], COLUMNS)?.points();
        let densities = trained.densities(&x, &grid)?;
        let highest = densities.iter().flat_map(GridDensity::log_prob_values).copied();
        let highest = highest.fold(f64::NEG_INFINITY, f64::max);
        // In thousandths, which is more than colours tell.
        let shade = |log: f64| ((log - highest).exp() * 1000.0).round() as f32 / 1000.0;
        let row = |row: usize| densities.iter().map(move |density| shade(density.log_prob_values()[row]));
        let p = (0..ROWS).flat_map(row).collect();
        let kl = self.truth.as_ref().map(|truth| truth.divergence(|x, y| trained.log_density(x, y)));
        Ok(State {
            losses,
            map: Map { columns: COLUMNS, rows: ROWS, p, largest: highest.exp() },
            kl: kl.transpose()?,
            milliseconds: since(start),
        })
    }
}

/// Refuses a point beside the plane that densities are normalised on.
fn check_point(point: [f32; 2]) -> Result<()> {
    let is_inside = point.iter().all(|value| (RANGE[0]..=RANGE[1]).contains(&f64::from(*value)));
    if is_inside { Ok(()) } else { Err(outside().into()) }
}

fn outside() -> Refusal {
    let [least, greatest] = RANGE;
    Refusal::bad(format!("x and y lie between {least} and {greatest}"))
}
