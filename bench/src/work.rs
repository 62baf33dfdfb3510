//! Works that are compared, one for each row of the table.

mod task;

use ebm_ops::device::Precision::{Bf16, Full};
use serde::Serialize;

pub use task::{Climb, Images, Size, Task, Widths};

/// Peers: forms of PyTorch, and runtimes of exported networks (`compare.py`). `FORM=WORK` is another work of ours.
const LAYOUTS: &[&str] = &["eager", "channels_last"];
const ON_MAPS: &[&str] = &["eager", "channels_last", "compile"];
const ON_ROWS: &[&str] = &["eager", "compile"];
const MAPS_ALONE: &[&str] = &["eager", "channels_last", "compile", "onnxruntime", "openvino"];
const ROWS_ALONE: &[&str] = &["eager", "compile", "onnxruntime", "openvino"];
const PUBLISHED: &[&str] = &["eager"];
const DETECTOR: &[&str] = &["without=detector"];
const SINGLE: &[&str] = &["f32=refinement"];
const DIRECT: &[&str] = &["without=age"];

/// Row of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Work {
    /// Name that `--only` takes.
    pub name: &'static str,
    /// Name in the table.
    pub title: &'static str,
    /// Computation that is timed.
    pub task: Task,
    /// Largest acceptable ratio of our time to the fastest peer's.
    pub goal: Option<f64>,
    /// Processes that the work is compared with.
    pub peers: &'static [&'static str],
}

/// Returns all works for a CPU, or with `gpu` for a GPU. With `smoke` their sizes are tiny and only show that
/// everything runs.
pub fn works(smoke: bool, gpu: bool) -> Vec<Work> {
    let sizes = Sizes { smoke };
    let mut works = sizes.networks();
    works.extend(sizes.heads());
    works.extend(sizes.predictions(gpu));
    works.extend(sizes.trainings(gpu));
    if !gpu {
        works.extend(sizes.whole());
    }
    works
}

const LEVEL: f64 = 1.0;
const TENTH_LESS: f64 = 0.9;

fn row(
    name: &'static str,
    title: &'static str,
    task: Task,
    goal: f64,
    peers: &'static [&'static str],
) -> Work {
    Work { name, title, task, goal: goal.is_finite().then_some(goal), peers }
}

/// Sizes of the works.
#[derive(Clone, Copy)]
struct Sizes {
    smoke: bool,
}

impl Sizes {
    fn by(self, full: usize, tiny: usize) -> usize {
        if self.smoke { tiny } else { full }
    }

    /// Returns the channels of the pyramid and the width of its head.
    fn widths(self) -> Widths {
        Widths { channels: self.by(256, 8), hidden: self.by(1024, 16) }
    }

    /// Returns the size of a detector's image.
    fn image(self) -> Size {
        Size { height: self.by(800, 64), width: self.by(1088, 96) }
    }

    fn square(self, batch: usize, side: usize) -> Images {
        let side = self.by(side, 32);
        Images { batch: self.by(batch, 2.min(batch)), size: Size { height: side, width: side } }
    }

    fn step(self, batch: usize, side: usize) -> Task {
        Task::ResnetStep { depth: 50, images: self.square(batch, side) }
    }

    /// Returns the works of ResNets and their parts.
    fn networks(self) -> Vec<Work> {
        let resnet = |depth, batch, side| Task::Resnet { depth, images: self.square(batch, side) };
        let size = Size { height: self.by(100, 10), width: self.by(136, 12) };
        let conv = |backward| Task::Conv { channels: self.by(256, 8), size, backward };
        let images = Images { batch: 1, size: self.image() };
        let fpn = Task::ResnetFpn { channels: self.widths().channels, images };
        let (forward, backward) =
            ("3×3 256→256 on 100×136, forward", "3×3 256→256 on 100×136, forward + backward");
        let [small, batched, shallow] = [resnet(50, 1, 224), resnet(50, 8, 224), resnet(18, 1, 288)];
        vec![
            row("resnet50-b1", "ResNet-50 inference, 224², batch 1", small, LEVEL, MAPS_ALONE),
            row("resnet50-b8", "ResNet-50 inference, 224², batch 8", batched, TENTH_LESS, MAPS_ALONE),
            row("resnet18", "ResNet-18 inference, 288², batch 1", shallow, LEVEL, MAPS_ALONE),
            row("resnet50-fpn", "ResNet50-FPN backbone, 800 × 1088", fpn, TENTH_LESS, MAPS_ALONE),
            row("conv-forward", forward, conv(false), 0.6, MAPS_ALONE),
            row("conv-backward", backward, conv(true), 0.8, ON_MAPS),
            row("resnet50-step", "ResNet-50 training step, 64², batch 8", self.step(8, 64), LEVEL, ON_MAPS),
            row(
                "resnet50-step-224",
                "ResNet-50 training step, 224², batch 8",
                self.step(8, 224),
                LEVEL,
                ON_MAPS,
            ),
        ]
    }

    /// Returns the works of the box head alone.
    fn heads(self) -> Vec<Work> {
        let head = |rows, backward| Task::Head {
            inputs: self.by(12544, 49),
            hidden: self.widths().hidden,
            classes: self.by(91, 5),
            rows: self.by(rows, 4),
            backward,
        };
        let (few, many) = ("head, 100 rows, forward + backward", "head, 1000 rows, forward + backward");
        vec![
            row("head-100-forward", "head, 100 rows, forward", head(100, false), LEVEL, ROWS_ALONE),
            row("head-100-backward", few, head(100, true), LEVEL, ON_ROWS),
            row("head-1000-forward", "head, 1000 rows, forward", head(1000, false), LEVEL, ROWS_ALONE),
            row("head-1000-backward", many, head(1000, true), LEVEL, ON_ROWS),
        ]
    }

    /// Returns the works of predictions with and without refinement.
    fn predictions(self, gpu: bool) -> Vec<Work> {
        let (widths, size) = (self.widths(), self.image());
        let (boxes, steps) = (self.by(100, 3), self.by(10, 2));
        let climb = |steps, precision| Climb { boxes, steps, precision };
        let refinement = |precision| Task::Refinement { climb: climb(steps, precision), widths, size };
        let detector = |steps, precision| Task::Detector { climb: climb(steps, precision), widths, size };
        let age = |steps| Task::Age { batch: 1, side: self.by(200, 32), steps };
        let kept = if gpu { 1.0 / 0.9 } else { 1.0 / 0.85 };
        let (aged, free) = (1.0 / 0.97, f64::INFINITY);
        let (level, refined) = (0.35, "Faster-RCNN and 100 boxes refined, T = 10");
        let mut works = vec![
            row("refinement", "energy head, 100 boxes, T = 10", refinement(Full), level, PUBLISHED),
            row("detector", "Faster-RCNN, 800 × 1088", detector(0, Full), free, &[]),
            row("detector-refined", refined, detector(steps, Full), kept, DETECTOR),
        ];
        if !gpu {
            works.extend([
                row("refinement-bf16", "the energy head in bf16", refinement(Bf16), LEVEL, SINGLE),
                row(
                    "detector-refined-bf16",
                    "the same refined in bf16",
                    detector(steps, Bf16),
                    kept,
                    DETECTOR,
                ),
            ]);
        }
        works.extend([
            row("age", "age by direct regression, 200²", age(0), LEVEL, MAPS_ALONE),
            row("age-refined", "the same refined, T = 5", age(self.by(5, 2)), aged, DIRECT),
        ]);
        works
    }

    /// Returns the works of training steps and of PrRoIPool with its gradients. A GPU gets larger sizes.
    fn trainings(self, gpu: bool) -> Vec<Work> {
        let widths = self.widths();
        let (images, objects, samples) =
            (self.by(if gpu { 16 } else { 2 }, 2), self.by(7, 2), self.by(128, 3));
        let head = Task::HeadStep { images, objects, samples, widths, size: self.image() };
        let size = Size { height: self.by(200, 16), width: self.by(272, 24) };
        let pool = |boxes, of_boxes| Task::RoiPool {
            boxes: self.by(boxes, 3),
            channels: widths.channels,
            size,
            of_boxes,
        };
        if gpu {
            let (large, step) = ("ResNet-50 training step, 200², batch 32", self.step(32, 200));
            let pooling = "PrRoIPool of 14 448 boxes, forward + backward";
            return vec![
                row("resnet50-large-step", large, step, 1.15, ON_MAPS),
                row("head-step", "Eq. 4, 16 images × 7 objects × 128 samples", head, LEVEL, PUBLISHED),
                row("roi-pool", pooling, pool(14_448, false), LEVEL, PUBLISHED),
            ];
        }
        let faces = Task::MobileFaceNetStep { images: self.square(32, 112) };
        let (of_map, of_boxes) = (
            "PrRoIPool of 1 806 boxes, forward + gradient in the map",
            "PrRoIPool of 100 boxes, forward + gradient in the boxes",
        );
        vec![
            row("head-step", "Eq. 4, 2 images × 7 objects × 128 samples", head, LEVEL, PUBLISHED),
            row("mobilefacenet-step", "MobileFaceNet training step, 112², batch 32", faces, LEVEL, ON_MAPS),
            row("roi-pool", of_map, pool(1806, false), LEVEL, PUBLISHED),
            row("roi-pool-boxes", of_boxes, pool(100, true), LEVEL, PUBLISHED),
        ]
    }

    /// Returns the works of a refiner's training step, a tracker's frame and an epoch of the loader, on a CPU.
    fn whole(self) -> Vec<Work> {
        let refiner = Task::RefinerStep {
            images: self.by(16, 2),
            objects: 2,
            samples: self.by(48, 3),
            size: Size { height: self.by(416, 64), width: self.by(544, 96) },
        };
        let frame =
            Task::TrackerFrame { side: self.by(288, 96), boxes: self.by(10, 3), steps: self.by(10, 2) };
        let loader = Task::Loader {
            images: self.by(64, 4),
            batch: 2,
            size: Size { height: self.by(480, 48), width: self.by(640, 64) },
            short_side: self.by(768, 96),
            workers: 2,
        };
        let (twice, loaded) = (0.5, "loader, 64 JPEGs of 640 × 480 to 1024 × 768, 2 workers");
        let refined = "box refiner's training step, 16 images of 416 × 544";
        let tracked = "tracker's frame, 288², 10 boxes, T = 10";
        vec![
            row("refiner-step", refined, refiner, LEVEL, LAYOUTS),
            row("tracker-frame", tracked, frame, LEVEL, LAYOUTS),
            row("loader", loaded, loader, twice, PUBLISHED),
        ]
    }
}
