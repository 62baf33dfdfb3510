//! What the experiments of all tasks share, between the training loop and the tasks.
//!
//! | what | item |
//! |---|---|
//! | settings: embedded or a file, one extending another, changed from the command line | [`config`] |
//! | the best of several step lengths, on validation data | [`best`] |
//! | what an experiment would do | [`plan`] |
//! | a training, the same course for every task | [`training`] |
//! | its validations | [`read_validations`] |

mod choice;
pub mod config;
mod error;
pub mod plan;
mod record;
pub mod training;

pub use choice::best;
pub use error::{Error, Result};
pub use record::{Validated, read_validations};
pub use training::{Built, Measure, Run, Session, Training, train};
