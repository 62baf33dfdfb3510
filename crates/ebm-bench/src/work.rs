//! The works that `bench` compares: one row of the table each.

use anyhow::{Result, bail};
use serde::Serialize;

/// What is computed and how large it is. PyTorch's script has a function of the same name with these arguments.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// The maps C2 to C5 of a ResNet, for inference.
    Resnet { depth: usize, batch: usize, height: usize, width: usize },
    /// The pyramid P2 to P6 over a ResNet-50, for inference.
    ResnetFpn { channels: usize, batch: usize, height: usize, width: usize },
    /// Forward with the batch's statistics, mean of C5², gradients in all parameters.
    ResnetStep { depth: usize, batch: usize, height: usize, width: usize },
    /// A 3 × 3 convolution of one map; with `backward`, also the gradients in map, weight and bias.
    Conv { channels: usize, height: usize, width: usize, backward: bool },
    /// Three linear layers with a ReLU between them; with `backward`, also the gradients in input and parameters.
    Head { inputs: usize, hidden: usize, classes: usize, rows: usize, backward: bool },
    /// The refinement of boxes by the confidence branch on a given pyramid.
    Refinement { boxes: usize, steps: usize, channels: usize, hidden: usize, height: usize, width: usize },
    /// Faster-RCNN on an image; with steps, also the refinement of so many boxes.
    Detector { boxes: usize, steps: usize, channels: usize, hidden: usize, height: usize, width: usize },
    /// Eq. 4 on given pyramids: the loss of so many objects in each image with their samples, and the gradients in the branch.
    HeadStep {
        images: usize,
        objects: usize,
        samples: usize,
        channels: usize,
        hidden: usize,
        height: usize,
        width: usize,
    },
    /// PrRoIPool of one map, and the gradient in the map.
    RoiPool { boxes: usize, channels: usize, height: usize, width: usize },
    /// Direct age regression with a ResNet-50; with steps, also the refinement of its estimates.
    Age { batch: usize, side: usize, steps: usize },
}

/// How the time of a run is shown.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub name: &'static str,
    pub of_seconds: fn(f64) -> f64,
}

/// Milliseconds.
pub const MILLISECONDS: Unit = Unit { name: "ms", of_seconds: |seconds| seconds * 1e3 };

/// What the ratio of times, ours over the peer's best, has to be.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub at_most: f64,
    /// How the table says it.
    pub text: &'static str,
}

/// What a work is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The form's name, for PyTorch's script and for the table.
    pub form: &'static str,
    /// Another work of ours that takes PyTorch's place.
    pub ours: Option<&'static str>,
    /// Whether it may fail, with a note, on a machine that lacks something.
    pub optional: bool,
}

const EAGER: Peer = Peer { form: "eager", ours: None, optional: false };
const CHANNELS_LAST: Peer = Peer { form: "channels_last", ..EAGER };
pub(crate) const COMPILE: Peer = Peer { form: "compile", optional: true, ..EAGER };

const ON_MAPS: &[Peer] = &[EAGER, CHANNELS_LAST, COMPILE];
const ON_ROWS: &[Peer] = &[EAGER, COMPILE];
/// The published scheme.
const PUBLISHED: &[Peer] = &[EAGER];
const DETECTOR: &[Peer] = &[Peer { form: "without", ours: Some("detector"), optional: false }];
const DIRECT: &[Peer] = &[Peer { form: "without", ours: Some("age"), optional: false }];

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// What `--only` takes.
    pub name: &'static str,
    /// What the table calls it.
    pub title: &'static str,
    /// What is computed.
    pub task: Task,
    /// What the ratio of times should be.
    pub goal: Goal,
    /// The unit of its times.
    pub unit: Unit,
    /// What it is compared with.
    pub peers: &'static [Peer],
}

/// All works at their sizes, or with `smoke` at tiny ones that only show that everything runs; those of a GPU's goals need one.
pub fn works(smoke: bool, gpu: bool) -> Vec<Work> {
    let by = |full: usize, tiny: usize| if smoke { tiny } else { full };
    let row = |name, title, task, (at_most, text), peers| Work {
        name,
        title,
        task,
        goal: Goal { at_most, text },
        unit: MILLISECONDS,
        peers,
    };
    let resnet = |depth, batch, side: usize| Task::Resnet { depth, batch, height: side, width: side };
    let conv =
        |backward| Task::Conv { channels: by(256, 8), height: by(100, 10), width: by(136, 12), backward };
    let head = |rows, backward| Task::Head {
        inputs: by(12544, 49),
        hidden: by(1024, 16),
        classes: by(91, 5),
        rows: by(rows, 4),
        backward,
    };
    let fpn = Task::ResnetFpn { channels: by(256, 8), batch: 1, height: by(800, 64), width: by(1088, 96) };
    let step = |batch, side| Task::ResnetStep { depth: 50, batch, height: by(side, 32), width: by(side, 32) };
    let (level, tenth_less) = ((1.0, "≤ 1.0"), (0.9, "≤ 0.9"));
    let side = by(224, 32);
    let (boxes, channels, hidden) = (by(100, 3), by(256, 8), by(1024, 16));
    let (height, width) = (by(800, 64), by(1088, 96));
    let refinement = Task::Refinement { boxes, steps: by(10, 2), channels, hidden, height, width };
    let detector = |steps| Task::Detector { boxes, steps, channels, hidden, height, width };
    let age = |steps| Task::Age { batch: 1, side: by(200, 32), steps };
    let kept = if gpu { (1.0 / 0.9, "≥ 90 % of the speed") } else { (1.0 / 0.85, "≥ 85 % of the speed") };
    let mut works = vec![
        row("resnet50-b1", "ResNet-50 inference, 224², batch 1", resnet(50, 1, side), level, ON_MAPS),
        row(
            "resnet50-b8",
            "ResNet-50 inference, 224², batch 8",
            resnet(50, by(8, 2), side),
            tenth_less,
            ON_MAPS,
        ),
        row("resnet18", "ResNet-18 inference, 288², batch 1", resnet(18, 1, by(288, 32)), level, ON_MAPS),
        row("resnet50-fpn", "ResNet50-FPN backbone, 800 × 1088", fpn, tenth_less, ON_MAPS),
        row("conv-forward", "3×3 256→256 on 100×136, forward", conv(false), (0.6, "≤ 0.6"), ON_MAPS),
        row(
            "conv-backward",
            "3×3 256→256 on 100×136, forward + backward",
            conv(true),
            (0.8, "≤ 0.8"),
            ON_MAPS,
        ),
        row("resnet50-step", "ResNet-50 training step, 64², batch 8", step(by(8, 2), 64), level, ON_MAPS),
        row("head-100-forward", "head, 100 rows, forward", head(100, false), level, ON_ROWS),
        row("head-100-backward", "head, 100 rows, forward + backward", head(100, true), level, ON_ROWS),
        row("head-1000-forward", "head, 1000 rows, forward", head(1000, false), level, ON_ROWS),
        row("head-1000-backward", "head, 1000 rows, forward + backward", head(1000, true), level, ON_ROWS),
        row("refinement", "energy head, 100 boxes, T = 10", refinement, (0.35, "≤ 0.35"), PUBLISHED),
        row("detector", "Faster-RCNN, 800 × 1088", detector(0), (f64::INFINITY, "–"), &[]),
        row(
            "detector-refined",
            "Faster-RCNN and 100 boxes refined, T = 10",
            detector(by(10, 2)),
            kept,
            DETECTOR,
        ),
        row("age", "age by direct regression, 200²", age(0), level, ON_MAPS),
        row(
            "age-refined",
            "the same refined, T = 5",
            age(by(5, 2)),
            (1.0 / 0.97, "≥ 97 % of the speed"),
            DIRECT,
        ),
    ];
    if gpu {
        let (images, objects, samples) = (by(16, 2), by(7, 2), by(128, 3));
        let head = Task::HeadStep { images, objects, samples, channels, hidden, height, width };
        let pool = Task::RoiPool { boxes: by(14_448, 3), channels, height: by(200, 16), width: by(272, 24) };
        let training = "ResNet-50 training step, 200², batch 32";
        works.extend([
            row("resnet50-large-step", training, step(by(32, 2), 200), (1.15, "≤ 1.15"), ON_MAPS),
            row("head-step", "Eq. 4, 16 images × 7 objects × 128 samples", head, level, PUBLISHED),
            row(
                "roi-pool",
                "PrRoIPool of 14 448 boxes, forward + backward",
                pool,
                (f64::INFINITY, "floor ≥ 60 %"),
                PUBLISHED,
            ),
        ]);
    }
    works
}

/// The works whose name is one of `only`, or starts with one and a hyphen; all where `only` is empty.
///
/// # Errors
/// When a name matches none.
pub fn select(works: Vec<Work>, only: &[String]) -> Result<Vec<Work>> {
    let matches = |work: &Work, name: &str| {
        work.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    if let Some(unknown) = only.iter().find(|name| !works.iter().any(|work| matches(work, name))) {
        let names: Vec<&str> = works.iter().map(|work| work.name).collect();
        bail!("there is no work {unknown:?}; choose from: {}", names.join(", "));
    }
    let chosen = |work: &Work| only.is_empty() || only.iter().any(|name| matches(work, name));
    Ok(works.into_iter().filter(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_works_and_groups() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            select(works(false, true), &only)
                .map(|works| works.iter().map(|work| work.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["conv"]).unwrap(), ["conv-forward", "conv-backward"]);
        assert_eq!(
            names(&["resnet18", "head-100"]).unwrap(),
            ["resnet18", "head-100-forward", "head-100-backward"]
        );
        assert_eq!(names(&[]).unwrap().len(), works(true, true).len());
        let error = names(&["conv", "resnet"]).unwrap_err().to_string();
        assert!(error.contains("\"resnet\"") && error.contains("resnet50-b1"), "{error}");
    }

    #[test]
    fn names_differ_and_own_peers_exist() {
        let works = works(false, true);
        for (i, work) in works.iter().enumerate() {
            assert!(works[..i].iter().all(|other| other.name != work.name), "{}", work.name);
            let exists = |name| works.iter().any(|other| other.name == name);
            assert!(work.peers.iter().filter_map(|peer| peer.ours).all(exists), "{}", work.name);
        }
    }

    #[test]
    fn the_script_has_a_function_for_each_task() {
        let compared = |work: &Work| work.peers.iter().any(|peer| peer.ours.is_none());
        for work in works(false, true).into_iter().filter(compared) {
            let task = serde_json::to_value(work.task).unwrap();
            let arguments: Vec<&str> =
                task.as_object().unwrap().keys().map(String::as_str).filter(|key| *key != "task").collect();
            let definition = format!("def {}(form, ", task["task"].as_str().unwrap());
            let line = crate::peer::SCRIPT.lines().find(|line| line.starts_with(&definition)).unwrap();
            let (_, rest) = line.split_once("(form, ").unwrap();
            let mut expected: Vec<&str> = rest.trim_end_matches("):").split(", ").collect();
            expected.sort_unstable();
            let mut arguments = arguments;
            arguments.sort_unstable();
            assert_eq!(arguments, expected, "{line}");
        }
    }
}
