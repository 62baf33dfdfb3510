//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic)]

mod backbones;
mod biwi;
mod common;
mod evaluation;
mod folds;
mod networks;
mod optimum;
#[path = "../../../ebm-ops/tests/common/mod.rs"]
mod tensors;
mod torch;
mod training;
