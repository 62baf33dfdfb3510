//! What the experiments of all tasks share, between the training loop and the tasks.
//!
//! | what | item |
//! |---|---|
//! | settings: embedded or a file, one extending another, changed from the command line | [`config`] |

pub mod config;
mod error;

pub use error::{Error, Result};
