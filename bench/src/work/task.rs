//! Computations of the works, and their sizes.

use ebm_ops::device::Precision;
use serde::Serialize;

/// Size of a map or an image.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    pub height: usize,
    pub width: usize,
}

/// Size of a batch of images.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Images {
    pub batch: usize,
    #[serde(flatten)]
    pub size: Size,
}

/// Channels of a pyramid, and the width of the head on it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Widths {
    pub channels: usize,
    pub hidden: usize,
}

/// Number of boxes that are refined, and number of steps of gradient ascent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Climb {
    pub boxes: usize,
    pub steps: usize,
    /// Precision of the branch's layers. The peers only have f32.
    #[serde(skip)]
    pub precision: Precision,
}

/// Computation with its sizes. `peer.py` has a function with the name and arguments of each variant.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// Inference of a ResNet's maps C2 to C5.
    Resnet {
        depth: usize,
        #[serde(flatten)]
        images: Images,
    },
    /// Inference of the pyramid P2 to P6 over a ResNet-50.
    ResnetFpn {
        channels: usize,
        #[serde(flatten)]
        images: Images,
    },
    /// Training step of a ResNet with the batch's statistics: the mean of C5², and its gradients in all parameters.
    ResnetStep {
        depth: usize,
        #[serde(flatten)]
        images: Images,
    },
    /// Training step of a MobileFaceNet: the mean of its last map squared, and its gradients in all parameters.
    MobileFaceNetStep {
        #[serde(flatten)]
        images: Images,
    },
    /// 3 × 3 convolution of one map. With `backward`, also the gradients in map, weight and bias.
    Conv {
        channels: usize,
        #[serde(flatten)]
        size: Size,
        backward: bool,
    },
    /// Three linear layers with ReLUs between them. With `backward`, also the gradients in input and parameters.
    Head { inputs: usize, hidden: usize, classes: usize, rows: usize, backward: bool },
    /// Refinement of boxes by the confidence branch on a given pyramid.
    Refinement {
        #[serde(flatten)]
        climb: Climb,
        #[serde(flatten)]
        widths: Widths,
        #[serde(flatten)]
        size: Size,
    },
    /// Faster-RCNN on an image. If `steps` is above 0, also the refinement of the boxes.
    Detector {
        #[serde(flatten)]
        climb: Climb,
        #[serde(flatten)]
        widths: Widths,
        #[serde(flatten)]
        size: Size,
    },
    /// Eq. 4 on given pyramids: the loss of `objects` objects in each image with their samples, and its gradients in
    /// the branch.
    HeadStep {
        images: usize,
        objects: usize,
        samples: usize,
        #[serde(flatten)]
        widths: Widths,
        #[serde(flatten)]
        size: Size,
    },
    /// PrRoIPool of one map, and the gradient in the map, or with `of_boxes` in the boxes.
    RoiPool {
        boxes: usize,
        channels: usize,
        #[serde(flatten)]
        size: Size,
        of_boxes: bool,
    },
    /// Training step of a box refiner in its configuration `refiner`: the gradients of Eq. 4 in pyramid and head, over
    /// a frozen body.
    RefinerStep {
        images: usize,
        objects: usize,
        samples: usize,
        #[serde(flatten)]
        size: Size,
    },
    /// Frame of the tracker after its crop: a ResNet-18 without its last stage, the classifier's scores, the box
    /// module's maps, and the refinement of the boxes.
    TrackerFrame { side: usize, boxes: usize, steps: usize },
    /// Epoch of JPEGs of this size: decoded, resized to a shorter side, normalised, in batches.
    Loader {
        images: usize,
        batch: usize,
        #[serde(flatten)]
        size: Size,
        short_side: usize,
        workers: usize,
    },
    /// Direct age regression with a ResNet-50. If `steps` is above 0, also the refinement of its estimates.
    Age { batch: usize, side: usize, steps: usize },
}
