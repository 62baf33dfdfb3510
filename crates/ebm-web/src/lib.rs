//! What a browser shows of this project: reports of runs, and the page of `ebm demo`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`page`] | a page of HTML as one file |
//! | [`report`] | runs as one page, and their curves as files of TensorBoard |
//! | [`server`] | a server that this machine alone can ask |
//! | [`demo`] | the page on which boxes climb, a density learns and a face has an age |

pub mod demo;
mod error;
pub mod page;
pub mod report;
pub mod server;

pub use error::{Error, Result};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
