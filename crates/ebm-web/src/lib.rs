//! Web pages of this project: reports of runs, and the page of `ebm demo`.
//!
//! | Module | Contents |
//! |---|---|
//! | [`page`] | a page of HTML as a single file |
//! | [`report`] | runs as one page, and their curves as event files for TensorBoard |
//! | [`server`] | a server that answers only this machine |
//! | [`demo`] | the page that refines boxes, trains a density and estimates ages |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod demo;
mod error;
pub mod page;
pub mod report;
pub mod server;

pub use error::{Error, Result};
