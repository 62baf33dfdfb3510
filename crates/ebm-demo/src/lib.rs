//! A page on this machine on which one watches a box climb f, a curve learn, and an age become a density.
//!
//! What the page shows is [`Models`], a site of ebm-server: `boxes`, `toy` and `ages` are its tabs, `page/` its HTML, CSS
//! and scripts, `limits` how much of anything it may ask for.

mod ages;
mod boxes;
mod density;
mod error;
mod limits;
mod models;
mod page;
mod recent;
mod toy;
mod upload;

pub use models::Models;
