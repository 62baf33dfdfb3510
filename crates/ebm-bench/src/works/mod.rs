//! Our side of each work: set up once, run as often as asked.

mod conv;
mod fpn;
mod head;
mod pooling;
mod prediction;
pub mod resnet;
mod step;

use std::any::Any;

use anyhow::Result;
use candle_core::{DType, Device};
use ebm_nn::params::{ParamStore, VarBuilder};
use ebm_seed::Key;

use super::work::Task;

/// One run; what it returns is dropped after the clock has stopped.
pub type Run = Box<dyn FnMut() -> Result<Box<dyn Any>>>;

/// The element type of all works.
const DTYPE: DType = DType::F32;

/// Where a work's parameters and inputs come from.
pub struct Place<'a> {
    pub store: ParamStore,
    pub device: &'a Device,
}

impl Place<'_> {
    /// Parameters and inputs by name.
    pub fn var_builder(&self) -> VarBuilder<'static> {
        self.store.var_builder(DTYPE, self.device)
    }

    /// Keeps all that is made from now on outside of graphs: inference.
    pub fn freeze(&self) {
        self.store.freeze(|_| true);
    }

    /// Whether there are packed forms here: on the CPU.
    pub fn packs(&self) -> bool {
        self.device.is_cpu()
    }
}

/// Sets the task up on `device`, with random parameters and inputs, which depend on nothing but their names.
pub fn prepare(task: Task, device: &Device) -> Result<Run> {
    let place = &Place { store: ParamStore::new(Key::new(0).split("bench")), device };
    match task {
        Task::Resnet { depth, batch, height, width } => resnet::prepare(place, depth, (batch, height, width)),
        Task::ResnetFpn { channels, batch, height, width } => {
            fpn::prepare(place, channels, (batch, height, width))
        }
        Task::ResnetStep { depth, batch, height, width } => {
            step::prepare(place, depth, (batch, height, width))
        }
        Task::Conv { channels, height, width, backward: false } => {
            conv::forward(place, channels, (height, width))
        }
        Task::Conv { channels, height, width, backward: true } => {
            conv::backward(place, channels, (height, width))
        }
        Task::Head { inputs, hidden, classes, rows, backward } => {
            head::prepare(place, [inputs, hidden, hidden, classes], rows, backward)
        }
        Task::Refinement { boxes, steps, channels, hidden, height, width } => {
            prediction::refinement(place, (boxes, steps), (channels, hidden), (height, width))
        }
        Task::Detector { boxes, steps, channels, hidden, height, width } => {
            prediction::detector(place, (boxes, steps), (channels, hidden), (height, width))
        }
        Task::HeadStep { images, objects, samples, channels, hidden, height, width } => {
            pooling::head_step(place, (images, objects, samples), (channels, hidden), (height, width))
        }
        Task::RoiPool { boxes, channels, height, width } => {
            pooling::roi_pool(place, boxes, channels, (height, width))
        }
        Task::Age { batch, side, steps } => prediction::age(place, (batch, side), steps),
    }
}
