//! Pages of HTML that need nothing but themselves.
//!
//! A [`Document`] is one file: style, scripts, data and pictures are in it, and its Content-Security-Policy lets a
//! browser run and load nothing else. [`THEME`] is how every page of this project looks, dark and light;
//! [`PAGE`] makes tables sortable and the theme a choice; [`CHART`] draws curves from data of the form [`Charts`].
//! What comes from files goes through [`escape`], [`json`] or [`data_uri`].

mod charts;
mod document;
mod error;
mod escape;

pub use charts::{CHARTS_ID, Chart, Charts, Curve};
pub use document::{CHART, COLOURS, Data, Document, GENERATOR, PAGE, Reach, THEME};
pub use error::{Error, Result};
pub use escape::{data_uri, escape, json};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
