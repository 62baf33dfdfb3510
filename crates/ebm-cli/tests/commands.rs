//! The tests of the commands: one program, because linking is the slow part, and so that none waits for another.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's failure is its report")]

#[path = "demo/chromium.rs"]
mod chromium;
mod common;
#[cfg(unix)]
#[path = "../../ebm-data/tests/fetch/hub_server.rs"]
mod hub_server;
#[cfg(unix)]
#[path = "../../ebm-data/tests/fetch/server.rs"]
mod server;

mod anywhere;
#[cfg(target_os = "linux")]
mod attack;
#[cfg(unix)]
mod book;
mod branches;
mod command;
#[cfg(unix)]
mod crash;
mod data;
mod demo;
#[cfg(target_os = "linux")]
mod disk_full;
#[cfg(unix)]
mod downloads;
mod eval_detection;
mod exit_codes;
mod expected;
mod export;
mod face;
mod face_sigma;
#[cfg(unix)]
mod files;
mod hub;
mod leftovers;
mod manual;
#[cfg(unix)]
mod parallel;
mod predict_detection;
mod refine;
mod report;
mod settings;
mod tables;
mod tables_large;
mod track_dataset;
mod tracking;
mod train_face;
mod train_tracker;
mod two_folders;
mod watch;
mod weights;
