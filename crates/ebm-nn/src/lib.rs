//! Image networks on candle tensors, built from the operations of [`ebm_ops`].
//!
//! | module | content |
//! |---|---|
//! | [`resnet`], [`efficientnet`], [`mobilefacenet`], [`shufflenet`], [`fpn`] | backbones |
//! | [`params`], [`init`], [`import`] | parameters with torchvision's names: initial values, saving, loading |
//! | [`onnx`] | networks as files for other runtimes |
//! | [`schedule`] | learning rates |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod efficientnet;
pub mod fpn;
pub mod import;
pub mod init;
pub mod mobilefacenet;
pub mod onnx;
pub mod params;
pub mod resnet;
pub mod schedule;
pub mod shufflenet;

use candle_core::Tensor;
use ebm_ops::Workspace;
pub use ebm_ops::{Error, Result};

/// Runs `blocks` on `x` one after the other. The memory of the maps between them is reused; the memory of `x` is
/// not.
fn run_blocks<B>(blocks: &[B], x: &Tensor, run: impl Fn(&B, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mut x = x.clone();
    for (i, block) in blocks.iter().enumerate() {
        let y = run(block, &x)?;
        let input = std::mem::replace(&mut x, y);
        if i > 0 {
            Workspace::shared().recycle_input(input, &x);
        }
    }
    Ok(x)
}
