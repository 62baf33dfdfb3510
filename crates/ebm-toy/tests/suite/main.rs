//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic)]

mod experiment;
mod network;
mod reference;
