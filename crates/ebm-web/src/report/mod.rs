//! Reports of runs as a single page.
//!
//! A [`Run`] holds the contents of its folder, even if a killed training or an older program left it incomplete.
//! Unreadable files become notes in the page. [`page`] shows one or several runs side by side. [`Follower`] writes a
//! training's curves as an event file for TensorBoard.

mod comparison;
mod curves;
mod html;
mod log;
mod markdown;
mod pictures;
mod run;
mod tables;
mod tensorboard;

pub use html::{page, waiting};
pub use run::Run;
pub use tensorboard::Follower;
