//! Runs as one page.
//!
//! A [`Run`] is what its folder holds, whatever a killed training or an older program left of it: what cannot be
//! read becomes a note in the page. [`page`] shows one or several side by side, in less than [`MAX_BYTES`].
//!
//! | what | where |
//! |---|---|
//! | reading a folder | [`Run::read`] |
//! | training and validation curves | [`Training`], [`Series`] |
//! | in which settings runs differ | [`Comparison`] |
//! | tables of JSON and CSV files, and their spread over seeds | [`Table`] |
//! | a training's curves as TensorBoard reads them | [`Follower`], [`EventFile`] |
//! | the report's Markdown, pictures | [`markdown`], [`pictures`] |

mod comparison;
mod curves;
mod error;
mod html;
mod lines;
pub mod markdown;
pub mod pictures;
mod run;
mod tables;
mod tensorboard;

pub use comparison::{Comparison, Source};
pub use curves::{Series, Training};
pub use error::{Error, Result};
pub use html::{Limits, MAX_BYTES, Renewal, page, waiting};
pub use run::Run;
pub use tables::{Cell, Table};
pub use tensorboard::{EventFile, Follower};

/// The largest file of results that is read, in bytes.
const MAX_TEXT: u64 = 64 << 20;

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
