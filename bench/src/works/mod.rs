//! Our side of each work, which is set up once and run as often as asked.

mod conv;
mod fpn;
mod head;
mod loader;
mod pooling;
mod prediction;
mod refiner;
pub mod resnet;
mod step;
mod tracker;

use std::any::Any;
use std::path::Path;

use anyhow::{Context, Result};
use candle_core::{DType, Device};
use ebm_base::Key;
use ebm_nn::params::{ParamStore, VarBuilder};

use super::work::Task;

/// Function of one run. Its result is dropped after the clock has stopped.
pub type Run = Box<dyn FnMut() -> Result<Box<dyn Any>>>;

/// Element type of all works.
const DTYPE: DType = DType::F32;

/// Source of a work's parameters and inputs.
pub struct Place<'a> {
    pub store: ParamStore,
    pub device: &'a Device,
}

impl Place<'_> {
    /// Returns a builder of parameters and inputs by name.
    pub fn var_builder(&self) -> VarBuilder<'static> {
        self.store.var_builder(DTYPE, self.device)
    }

    /// Keeps all parameters out of the graph from now on, for inference.
    pub fn freeze(&self) {
        self.store.freeze(|_| true);
    }

    /// Returns `true` if the device has packed forms of weights, as the CPU has.
    pub fn packs(&self) -> bool {
        self.device.is_cpu()
    }
}

/// Sets the task up on `device`, with random parameters and inputs that depend only on their names. `pictures` is the
/// folder of pictures for a task that reads some.
pub fn prepare(task: Task, device: &Device, pictures: Option<&Path>) -> Result<Run> {
    let place = &Place { store: ParamStore::new(Key::new(0).split("bench")), device };
    match task {
        Task::Resnet { depth, images } => resnet::prepare(place, depth, images),
        Task::ResnetFpn { channels, images } => fpn::prepare(place, channels, images),
        Task::ResnetStep { depth, images } => step::resnet(place, depth, images),
        Task::MobileFaceNetStep { images } => step::mobilefacenet(place, images),
        Task::Conv { channels, size, backward: false } => conv::forward(place, channels, size),
        Task::Conv { channels, size, backward: true } => conv::backward(place, channels, size),
        Task::Head { inputs, hidden, classes, rows, backward } => {
            head::prepare(place, [inputs, hidden, hidden, classes], rows, backward)
        }
        Task::Refinement { climb, widths, size } => prediction::refinement(place, climb, widths, size),
        Task::Detector { climb, widths, size } => prediction::detector(place, climb, widths, size),
        Task::HeadStep { images, objects, samples, widths, size } => {
            pooling::head_step(place, images, objects, samples, widths, size)
        }
        Task::RoiPool { boxes, channels, size, of_boxes } => {
            pooling::roi_pool(place, boxes, channels, size, of_boxes)
        }
        Task::RefinerStep { images, objects, samples, size } => {
            refiner::step(place, images, objects, samples, size)
        }
        Task::TrackerFrame { side, boxes, steps } => tracker::frame(place, side, boxes, steps),
        Task::Loader { batch, short_side, workers, .. } => {
            let pictures = pictures.context("the loader's work needs the folder of its pictures")?;
            loader::epoch(pictures, batch, short_side, workers)
        }
        Task::Age { batch, side, steps } => prediction::age(place, batch, side, steps),
    }
}
