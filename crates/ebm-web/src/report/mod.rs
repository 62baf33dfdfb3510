//! Runs as one page.
//!
//! A [`Run`] is what its folder holds, whatever a killed training or an older program left of it: what cannot be
//! read becomes a note in the page. [`page`] shows one or several side by side. [`Follower`] writes a training's curves as
//! TensorBoard reads them.

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
