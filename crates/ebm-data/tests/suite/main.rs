//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod check;
mod coco;
mod decode;
mod detection_folder;
mod face_augment;
mod face_loader;
mod faces_listed;
mod faces_pointing04;
mod faces_split;
mod faces_utkface;
mod injected;
mod loader;
mod otb;
mod patch;
mod plain;
mod rect;
mod transform;
