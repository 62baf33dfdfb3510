//! The training loop, checkpoints and metric logs.
//!
//! **Invariants**: the crate knows no task (a task implements [`TrainTask`]), never prints (a [`Progress`]
//! selects what to show), reads no clock and draws no random number. Learning rates and generators are functions
//! of the step, so a checkpoint holds only parameters and optimiser state, and resuming is exact.
//!
//! | Module | Content |
//! |---|---|
//! | [`trainer`] | [`TrainTask`]; the loop [`train_run`], and [`train_together`] in several processes |
//! | [`distributed`] | [`Group`]: several processes as one, over MPI, NCCL or threads |
//! | [`updater`] | [`Updater`]: gradient, clipping, learning rate, optimiser |
//! | [`progress`] | [`Progress`]: the stages of a long computation; [`RunSpec`]: where and how a run is trained |
//! | [`guard`] | [`NonFiniteGuard`]: skips updates with a NaN or infinite loss or gradient |
//! | [`checkpoint`] | [`CheckpointStore`]: atomic commits, verified reads, older checkpoints in place of damaged ones |
//! | [`metrics`] | [`MetricsLog`]: one JSON object per line |
//! | [`model_file`] | [`ModelFile`]: a file of trained weights, and its description of itself ([`ModelMetadata`]) |
//! | [`base`] | [`keep_base`]: copies the base network of a run beside its models |
//! | [`run_dir`] | [`RunDir`]: a run's directory and its lock |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod base;
pub mod checkpoint;
pub mod distributed;
mod error;
mod files;
pub mod gradient_task;
pub mod guard;
pub mod metrics;
pub mod model_file;
pub mod progress;
pub mod run_dir;
pub mod settings;
pub mod trainer;
pub mod updater;

pub use base::{keep_base, moved_with};
pub use checkpoint::{
    Checkpoint, CheckpointData, CheckpointState, CheckpointStore, Loaded, load_latest, sha256,
};
pub use distributed::{Group, Threads};
pub use error::{BoxError, Error, Result};
pub use gradient_task::{Descent, GradientTask, Learner, Loss, LossPart};
pub use guard::NonFiniteGuard;
pub use metrics::{MetricsLog, MetricsRecord, read_metrics};
pub use model_file::{BaseNetwork, Class, Metadata, ModelFile, ModelMetadata};
pub use progress::{Progress, RunSpec};
pub use run_dir::{Environment, RunDir};
pub use trainer::{StepReport, TrainTask, train_run, train_together};
pub use updater::Updater;
