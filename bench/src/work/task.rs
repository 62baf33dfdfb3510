//! What a work computes, and how large it is.

use ebm_ops::device::Precision;
use serde::Serialize;

/// Of a map or an image.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    pub height: usize,
    pub width: usize,
}

/// A batch of images.
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

/// How many boxes climb f, and how far.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Climb {
    pub boxes: usize,
    pub steps: usize,
    /// Of the branch's layers; the peers know f32 alone.
    #[serde(skip)]
    pub precision: Precision,
}

/// What is computed and how large it is. The peers' script has a function of the same name with these
/// arguments.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Task {
    /// The maps C2 to C5 of a ResNet, for inference.
    Resnet {
        depth: usize,
        #[serde(flatten)]
        images: Images,
    },
    /// The pyramid P2 to P6 over a ResNet-50, for inference.
    ResnetFpn {
        channels: usize,
        #[serde(flatten)]
        images: Images,
    },
    /// Forward with the batch's statistics, mean of C5², gradients in all parameters.
    ResnetStep {
        depth: usize,
        #[serde(flatten)]
        images: Images,
    },
    /// The same of a MobileFaceNet, of its last map.
    MobileFaceNetStep {
        #[serde(flatten)]
        images: Images,
    },
    /// A 3 × 3 convolution of one map; with `backward`, also the gradients in map, weight and bias.
    Conv {
        channels: usize,
        #[serde(flatten)]
        size: Size,
        backward: bool,
    },
    /// Three linear layers with a ReLU between them; with `backward`, also the gradients in input and
    /// parameters.
    Head { inputs: usize, hidden: usize, classes: usize, rows: usize, backward: bool },
    /// The refinement of boxes by the confidence branch on a given pyramid.
    Refinement {
        #[serde(flatten)]
        climb: Climb,
        #[serde(flatten)]
        widths: Widths,
        #[serde(flatten)]
        size: Size,
    },
    /// Faster-RCNN on an image; with steps, also the refinement of so many boxes.
    Detector {
        #[serde(flatten)]
        climb: Climb,
        #[serde(flatten)]
        widths: Widths,
        #[serde(flatten)]
        size: Size,
    },
    /// Eq. 4 on given pyramids: the loss of so many objects in each image with their samples, and the
    /// gradients in the branch.
    HeadStep {
        images: usize,
        objects: usize,
        samples: usize,
        #[serde(flatten)]
        widths: Widths,
        #[serde(flatten)]
        size: Size,
    },
    /// PrRoIPool of one map, and the gradient in the map, or with `of_boxes` the one in the boxes.
    RoiPool {
        boxes: usize,
        channels: usize,
        #[serde(flatten)]
        size: Size,
        of_boxes: bool,
    },
    /// A step of the training of a box refiner in its configuration `refiner`: the gradients of Eq. 4 in
    /// pyramid and head, over a frozen body.
    RefinerStep {
        images: usize,
        objects: usize,
        samples: usize,
        #[serde(flatten)]
        size: Size,
    },
    /// A frame of the tracker from its crop on: a ResNet-18 without its last stage, the classifier's scores,
    /// the box module's maps, and so many boxes that climb f.
    TrackerFrame { side: usize, boxes: usize, steps: usize },
    /// An epoch of JPEGs of this size: decoded, resized to a shorter side, normalised, in batches.
    Loader {
        images: usize,
        batch: usize,
        #[serde(flatten)]
        size: Size,
        short_side: usize,
        workers: usize,
    },
    /// Direct age regression with a ResNet-50; with steps, also the refinement of its estimates.
    Age { batch: usize, side: usize, steps: usize },
}
