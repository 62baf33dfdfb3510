//! The tab "Boxes": what is found in a photograph, and the way of a box that the user has moved.

use std::time::Instant;

use ebm_core::{GradientAscent, StepRule};
use ebm_detect::{Corner, Detection, Detector, LabelledBox, Scene};
use ebm_seed::Key;
use ebm_server::Refusal;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::limits;
use crate::recent::Recent;
use crate::upload::upload;

/// A detector, and the photographs that it has seen last.
pub struct Boxes {
    detector: Detector,
    min_score: f32,
    known: Recent<Photograph>,
}

struct Photograph {
    size: [usize; 2],
    scene: Scene,
}

/// What the page is told of the model.
#[derive(Serialize)]
pub struct Model {
    /// The objective's key; none where the file of f does not say it.
    objective: Option<String>,
    /// How boxes climb by default; none without f.
    ascent: Option<GradientAscent>,
    /// T at most.
    most_steps: usize,
    classes: Vec<NamedClass>,
}

#[derive(Serialize)]
struct NamedClass {
    label: usize,
    name: String,
    can_climb: bool,
}

/// What was found in a photograph.
#[derive(Serialize)]
pub struct Seen {
    /// The photograph's number in later requests.
    image: u64,
    width: usize,
    height: usize,
    detections: Vec<Found>,
    /// Decoding and detection.
    milliseconds: f64,
}

#[derive(Serialize)]
struct Found {
    label: usize,
    name: String,
    score: f32,
    /// `[x, y, width, height]` in pixels, before refinement and after.
    before: [f64; 4],
    bbox: [f64; 4],
    can_climb: bool,
}

/// A box that is to climb.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Climb {
    image: u64,
    label: usize,
    bbox: [f64; 4],
    /// T.
    steps: usize,
    /// What λ is multiplied by.
    factor: f64,
    rule: Rule,
}

/// Which steps are kept.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    /// As the model's settings say.
    Own,
    /// All.
    Plain,
}

/// Where the box stood.
#[derive(Serialize)]
pub struct Climbed {
    path: Vec<Point>,
    milliseconds: f64,
}

#[derive(Serialize)]
struct Point {
    bbox: [f64; 4],
    f: f64,
    is_kept: bool,
}

/// A box about which p(y | x) is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    image: u64,
    label: usize,
    bbox: [f64; 4],
    corner: CornerName,
    /// Points along each side of the map; 0: no map.
    size: usize,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CornerName {
    TopLeft,
    TopRight,
    BottomLeft,
    BottomRight,
}

/// p(y | x) about a box.
#[derive(Serialize)]
pub struct Density {
    /// Left, top, right and bottom: intervals that hold the edge with probability 0.9.
    edges_90: [Vec<[f64; 2]>; 4],
    effective_sample_size: f64,
    is_reliable: bool,
    is_calibrated: bool,
    corner: Option<Map>,
    milliseconds: f64,
}

/// The corner's density on a raster.
#[derive(Serialize)]
struct Map {
    first: [f64; 2],
    step: [f64; 2],
    size: usize,
    /// In rows, over the largest.
    p: Vec<f32>,
}

/// Importance samples of a density.
const SAMPLES: usize = 2048;

impl Boxes {
    /// With no photograph yet; detections from `min_score` on are shown.
    pub fn new(detector: Detector, min_score: f32) -> Self {
        Self { detector, min_score, known: Recent::new(limits::IMAGES, "photograph") }
    }

    /// What there is to choose.
    pub fn model(&self) -> Model {
        let classes = self.detector.classes().iter().map(|class| NamedClass {
            label: class.label,
            name: class.name.clone(),
            can_climb: self.detector.can_climb(class.label),
        });
        let objective = self.detector.objective().and_then(|objective| serde_json::to_value(objective).ok());
        Model {
            objective: objective.and_then(|objective| Some(objective.get("kind")?.as_str()?.to_owned())),
            ascent: self.detector.ascent().cloned(),
            most_steps: limits::STEPS,
            classes: classes.collect(),
        }
    }

    /// Looks at the photograph whose file is `bytes`; its name is the query `name=`.
    pub fn look(&self, query: &str, bytes: &[u8]) -> Result<Seen> {
        let start = Instant::now();
        let image = upload(query, bytes)?;
        let mut scene = self.detector.look(&image)?;
        scene.detections.retain(|found| found.score >= self.min_score);
        let detections = scene.detections.iter().map(|found| self.found(found)).collect();
        let size = [image.width, image.height];
        let id = self.known.add(Photograph { size, scene });
        let [width, height] = size;
        Ok(Seen { image: id, width, height, detections, milliseconds: since(start) })
    }

    fn found(&self, found: &Detection) -> Found {
        Found {
            label: found.label,
            name: found.name(),
            score: found.score,
            before: found.before,
            bbox: found.bbox,
            can_climb: self.detector.can_climb(found.label),
        }
    }

    /// Lets a box climb.
    pub fn climb(&self, asked: &Climb) -> Result<Climbed> {
        let start = Instant::now();
        let own = self.detector.ascent();
        let own = own.ok_or_else(|| Refusal::bad("this detector has no energy model, so nothing climbs"))?;
        if asked.steps > limits::STEPS || !(0.0..=limits::FACTOR).contains(&asked.factor) {
            let (steps, factor) = (limits::STEPS, limits::FACTOR);
            return Err(
                Refusal::bad(format!("T is at most {steps}, and λ is multiplied by 0 to {factor}")).into()
            );
        }
        let step_length = own.step_length.iter().map(|length| length * asked.factor).collect();
        let ascent = GradientAscent { steps: asked.steps, step_length, ..own.clone() };
        let ascent = match asked.rule {
            Rule::Own => ascent,
            Rule::Plain => GradientAscent { decay: 1.0, rule: StepRule::Plain, ..ascent },
        };
        let given = LabelledBox { bbox: asked.bbox, label: asked.label };
        let path =
            self.with(asked.image, asked.bbox, |scene| Ok(self.detector.climb(scene, given, &ascent)?))?;
        let path =
            path.into_iter().map(|point| Point { bbox: point.bbox, f: point.f, is_kept: point.is_kept });
        Ok(Climbed { path: path.collect(), milliseconds: since(start) })
    }

    /// p(y | x) about a box.
    pub fn density(&self, asked: &About) -> Result<Density> {
        let start = Instant::now();
        if asked.size > limits::MAP_SIZE {
            return Err(Refusal::bad(format!("size is at most {}", limits::MAP_SIZE)).into());
        }
        let given = LabelledBox { bbox: asked.bbox, label: asked.label };
        // The same box has the same samples, whatever was asked before.
        let mut rng = Key::new(0).split("demo").rng();
        let density = self.with(asked.image, asked.bbox, |scene| {
            Ok(self.detector.density(scene, given, SAMPLES, &mut rng)?)
        })?;
        let corner = match asked.size {
            0 => None,
            size => Some(Map::of(&density.corner(asked.corner.into(), size)?)),
        };
        Ok(Density {
            edges_90: density.edge_intervals()?.map(|region| region.intervals),
            effective_sample_size: density.effective_sample_size(),
            is_reliable: density.is_reliable(),
            is_calibrated: density.is_calibrated(),
            corner,
            milliseconds: since(start),
        })
    }

    /// Asks about a box in a photograph that is still known.
    fn with<T>(&self, image: u64, bbox: [f64; 4], ask: impl FnOnce(&Scene) -> Result<T>) -> Result<T> {
        self.known.with(image, |photograph| {
            check_box(bbox, photograph.size)?;
            ask(&photograph.scene)
        })
    }
}

/// Refuses a box that is none, or lies beside its photograph.
pub fn check_box(bbox: [f64; 4], size: [usize; 2]) -> Result<()> {
    let [x, y, width, height] = bbox;
    let [columns, rows] = size.map(|side| side as f64);
    let is_box = bbox.iter().all(|value| value.abs() <= 1e6) && width >= 1.0 && height >= 1.0;
    if !is_box || x >= columns || y >= rows || x + width <= 0.0 || y + height <= 0.0 {
        let said = "a box is at least a pixel wide and high, and partly in the photograph";
        return Err(Refusal::bad(said).into());
    }
    Ok(())
}

impl Map {
    fn of(map: &ebm_core::DensityMap) -> Self {
        let largest = map.p.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let p = map.p.iter().map(|p| (p / largest) as f32).collect();
        Self { first: map.first, step: map.step, size: map.size, p }
    }
}

impl From<CornerName> for Corner {
    fn from(name: CornerName) -> Self {
        match name {
            CornerName::TopLeft => Self::TopLeft,
            CornerName::TopRight => Self::TopRight,
            CornerName::BottomLeft => Self::BottomLeft,
            CornerName::BottomRight => Self::BottomRight,
        }
    }
}

/// The time since then in milliseconds.
pub fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
