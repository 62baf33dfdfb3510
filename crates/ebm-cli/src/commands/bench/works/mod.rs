//! Our side of each work: set up once, run as often as asked.

mod conv;
mod fpn;
mod head;
mod prediction;
pub mod resnet;
mod step;

use std::any::Any;

use anyhow::Result;
use candle_core::{DType, Device};
use ebm_nn::params::ParamStore;
use ebm_seed::Key;

use super::work::Task;

/// One run; what it returns is dropped after the clock has stopped.
pub type Run = Box<dyn FnMut() -> Result<Box<dyn Any>>>;

/// The element type and the device of all works.
const DTYPE: DType = DType::F32;
const DEVICE: Device = Device::Cpu;

/// Sets the task up with random parameters and inputs, which depend on nothing but their names.
pub fn prepare(task: Task) -> Result<Run> {
    let store = ParamStore::new(Key::new(0).split("bench"));
    match task {
        Task::Resnet { depth, batch, height, width } => {
            resnet::prepare(&store, depth, (batch, height, width))
        }
        Task::ResnetFpn { channels, batch, height, width } => {
            fpn::prepare(&store, channels, (batch, height, width))
        }
        Task::ResnetStep { depth, batch, height, width } => {
            step::prepare(&store, depth, (batch, height, width))
        }
        Task::Conv { channels, height, width, backward: false } => {
            conv::forward(&store, channels, (height, width))
        }
        Task::Conv { channels, height, width, backward: true } => {
            conv::backward(&store, channels, (height, width))
        }
        Task::Head { inputs, hidden, classes, rows, backward } => {
            head::prepare(&store, [inputs, hidden, hidden, classes], rows, backward)
        }
        Task::Refinement { boxes, steps, channels, hidden, height, width } => {
            prediction::refinement(&store, (boxes, steps), (channels, hidden), (height, width))
        }
        Task::Detector { boxes, steps, channels, hidden, height, width } => {
            prediction::detector(&store, (boxes, steps), (channels, hidden), (height, width))
        }
        Task::Age { batch, side, steps } => prediction::age(&store, (batch, side), steps),
    }
}
