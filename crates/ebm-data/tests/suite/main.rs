//! The crate's tests: one binary, because linking is the slow part.
//! `decode_cost.rs` stands beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../plain/mod.rs"]
mod plain;

mod check;
mod coco;
mod decode;
mod detection_folder;
mod face_augment;
mod face_loader;
mod faces_frames;
mod faces_listed;
mod faces_npz;
mod faces_pointing04;
mod faces_split;
mod faces_utkface;
mod injected;
mod loader;
mod patch;
mod transform;
mod unpack;
