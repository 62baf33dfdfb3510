//! The training loop, checkpoints and metric logs.
//!
//! **Invariants**: knows no task (a task implements [`TrainTask`]), never prints (a [`Progress`] decides
//! what is shown), reads no clock and draws no random number. Learning rates and generators are functions
//! of the step, so a checkpoint holds parameters and optimiser state and resuming is exact.
//!
//! | Module | What lives there |
//! |---|---|
//! | [`trainer`] | the loop, resume, [`TrainTask`] |
//! | [`together`] | [`train_together`]: the loop in several processes |
//! | [`distributed`] | [`Group`]: several processes as one, over MPI, NCCL or threads |
//! | [`updater`] | [`Updater`]: gradient, clipping, learning rate, optimiser |
//! | [`progress`] | [`Progress`]: the stages of a long computation; [`train_run`]: the loop as one of them |
//! | [`guard`] | [`NonFiniteGuard`]: skips updates with a NaN or infinite loss or gradient |
//! | [`checkpoint`] | [`CheckpointStore`]: atomic commits, verified reads, fallback |
//! | [`statistics`] | [`RunningStatistics`]: moved by applied steps alone |
//! | [`metrics`] | [`MetricsLog`]: one JSON object a line |
//! | [`model_file`] | [`ModelMetadata`]: what a file of trained weights says of itself |
//! | [`base`] | [`keep_base`]: the network that models of a run stand on, beside them |
//! | [`run_dir`] | [`RunDir`]: a run's directory and its lock |

pub mod base;
pub mod checkpoint;
pub mod distributed;
mod dump;
mod error;
mod files;
pub mod gradient_task;
pub mod guard;
pub mod metrics;
pub mod model_file;
pub mod progress;
pub mod run_dir;
pub mod settings;
pub mod statistics;
pub mod together;
pub mod trainer;
pub mod updater;

pub use base::{keep_base, moved_with};
pub use checkpoint::{
    Checkpoint, CheckpointData, CheckpointState, CheckpointStore, Loaded, Skipped, load_checkpoint,
    load_latest, sha256,
};
pub use distributed::{Group, Threads};
pub use error::{BoxError, Error, Result};
pub use gradient_task::{Descent, GradientTask, Learner, Loss, LossPart};
pub use guard::{NonFiniteGuard, Verdict};
pub use metrics::{MetricsLog, MetricsRecord, read_metrics};
pub use model_file::{BaseNetwork, Class, Metadata, ModelMetadata};
pub use progress::{Progress, RunSpec, train_run};
pub use run_dir::{Environment, RunDir};
pub use statistics::RunningStatistics;
pub use together::train_together;
pub use trainer::{StepReport, TrainTask};
pub use updater::Updater;

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
