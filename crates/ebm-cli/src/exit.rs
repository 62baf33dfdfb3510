//! What the exit code says; docs/exit_codes.md has the table.

use std::error::Error as StdError;
use std::io::{Error as IoError, ErrorKind};

use ebm_data::Error as DataError;
use ebm_detect::Error as DetectError;
use ebm_eval::Error as EvalError;
use ebm_experiment::Error as ExperimentError;
use ebm_face::Error as FaceError;
use ebm_nn::Error as NnError;
use ebm_toy::Error as ToyError;
use ebm_track::Error as TrackError;
use ebm_train::Error as TrainError;

use crate::commands::reproduce::outcome::Missed;

/// Something failed that has no code of its own.
const FAILURE: u8 = 1;
/// The command line or a setting was not understood.
const USAGE: u8 = 2;
/// Data or a model's files are not what they should be.
const DATA: u8 = 3;
/// Losses or gradients were not finite too often.
const NON_FINITE: u8 = 4;
/// The figures are not those that the configuration expects, with `--check`.
const MISSED: u8 = 5;
/// The disk is full, or the memory, the GPU's too.
pub const RESOURCES: u8 = 6;

/// The code of an error; `interrupted` is that of the signal that arrived. A command line that is not
/// understood leaves before this.
pub fn code(error: &anyhow::Error, interrupted: u8) -> u8 {
    // A full disk is one, whatever was being done.
    if is_of_resources(error) {
        return RESOURCES;
    }
    error.chain().find_map(|cause| of_cause(cause, interrupted)).unwrap_or(FAILURE)
}

/// Whether the disk is full, or the memory, the GPU's too.
pub fn is_of_resources(error: &anyhow::Error) -> bool {
    error.chain().any(names_resources)
}

fn names_resources(cause: &(dyn StdError + 'static)) -> bool {
    // A thread that has no memory for its stack would block.
    use ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull, WouldBlock};
    // The driver's error reaches here as text only.
    if cause.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY") {
        return true;
    }
    let error = cause.downcast_ref::<IoError>();
    error.is_some_and(|e| {
        matches!(e.kind(), FileTooLarge | OutOfMemory | QuotaExceeded | StorageFull | WouldBlock)
    })
}

/// The error that another one stands for: those of the tasks pass on what happened below them, and say
/// nothing themselves.
fn wrapped<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    macro_rules! inner {
        ($($error:ident { $($variant:ident),+ })+) => {
            $(if let Some(error) = cause.downcast_ref::<$error>() {
                return match error {
                    $($error::$variant(inner) => Some(inner),)+
                    _ => None,
                };
            })+
        };
    }
    if let Some(error) = cause.downcast_ref() {
        return match error {
            ExperimentError::Train(error) => Some(&**error),
            ExperimentError::Validation(error) => Some(&**error),
            ExperimentError::Method(error) => Some(&**error),
            ExperimentError::Metric(error) => Some(&**error),
            _ => None,
        };
    }
    inner! {
        DetectError { Candle, Nn, Core, Data, Eval, Train, Experiment }
        FaceError { Candle, Nn, Core, Data, Eval, Train, Experiment }
        TrackError { Candle, Nn, Core, Data, Eval, Train, Experiment }
        ToyError { Method, Network, Tensor, Experiment }
        TrainError { Nn, Candle }
        EvalError { Data }
    }
    None
}

fn of_cause(cause: &(dyn StdError + 'static), interrupted: u8) -> Option<u8> {
    if let Some(inner) = wrapped(cause) {
        return anyhow::Chain::new(inner).find_map(|cause| of_cause(cause, interrupted));
    }
    if let Some(TrainError::Interrupted { .. }) = cause.downcast_ref() {
        return Some(interrupted);
    }
    of_training(cause).or_else(|| of_task(cause)).or_else(|| of_data(cause))
}

/// Of a training or of what it wrote.
fn of_training(cause: &(dyn StdError + 'static)) -> Option<u8> {
    if cause.is::<Missed>() {
        return Some(MISSED);
    }
    match cause.downcast_ref()? {
        TrainError::RunName { .. } => Some(USAGE),
        TrainError::NonFinite { .. } | TrainError::NonFiniteTensor { .. } => Some(NON_FINITE),
        TrainError::DiskFull { .. } => Some(RESOURCES),
        TrainError::NoValidCheckpoint { .. }
        | TrainError::CorruptCheckpoint { .. }
        | TrainError::Json { .. }
        | TrainError::MetricsLine { .. }
        | TrainError::Model { .. }
        | TrainError::Schema { .. } => Some(DATA),
        _ => None,
    }
}

/// Of a task's settings, weights or input.
fn of_task(cause: &(dyn StdError + 'static)) -> Option<u8> {
    if let Some(ExperimentError::Config { .. } | ExperimentError::OutOfRange(_)) = cause.downcast_ref() {
        return Some(USAGE);
    }
    if let Some(error) = cause.downcast_ref::<DetectError>() {
        return matches!(error, DetectError::Weights { .. } | DetectError::NonFinite { .. }).then_some(DATA);
    }
    if let Some(error) = cause.downcast_ref::<FaceError>() {
        let data = matches!(
            error,
            FaceError::Settings { .. } | FaceError::Images { .. } | FaceError::Weights { .. }
        );
        return data.then_some(DATA);
    }
    if let Some(error) = cause.downcast_ref::<TrackError>() {
        return (!matches!(error, TrackError::Io { .. } | TrackError::Config { .. })).then_some(DATA);
    }
    match cause.downcast_ref()? {
        ToyError::Csv { .. } | ToyError::NoPoints { .. } | ToyError::Points { .. } => Some(DATA),
        ToyError::Setting { .. } => Some(USAGE),
        ToyError::Diverged { .. } => Some(NON_FINITE),
        _ => None,
    }
}

/// Of files that are read. What the machine refuses, as a file that is not there, is nobody's data.
fn of_data(cause: &(dyn StdError + 'static)) -> Option<u8> {
    if let Some(error) = cause.downcast_ref::<DataError>() {
        use DataError::{Argument, Encode, ImageShape, Io, Locked, Network, NotThere, Worker};
        if let Argument { .. } = error {
            return Some(USAGE);
        }
        return (!matches!(
            error,
            Encode { .. }
                | ImageShape { .. }
                | Io { .. }
                | Locked { .. }
                | Network(..)
                | NotThere(..)
                | Worker { .. }
        ))
        .then_some(DATA);
    }
    if let Some(error) = cause.downcast_ref::<EvalError>() {
        return (!matches!(error, EvalError::Io { .. })).then_some(DATA);
    }
    if let Some(error) = cause.downcast_ref::<NnError>() {
        return matches!(error, NnError::Format { .. }).then_some(DATA);
    }
    let cut = |error: &IoError| matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof);
    let io = cause.downcast_ref::<IoError>().is_some_and(cut);
    let json = cause.downcast_ref::<serde_json::Error>().is_some_and(|error| !error.is_io());
    let toml = cause.is::<toml::de::Error>();
    let csv = cause.downcast_ref::<csv::Error>().is_some_and(|error| !error.is_io_error());
    (io || json || toml || csv).then_some(DATA)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_cause_anywhere_in_the_chain_decides() {
        let wrapped = |error: TrainError| anyhow::Error::new(error).context("while training");
        let interrupted = TrainError::Interrupted { path: "run".into(), step: 3 };
        assert_eq!(code(&wrapped(interrupted), 143), 143);
        let interrupted = TrainError::Interrupted { path: "run".into(), step: 3 };
        assert_eq!(code(&ExperimentError::from(interrupted).into(), 143), 143);
        let hits = vec![1, 2, 3];
        let poisoned = TrainError::NonFinite { step: 3, loss: f64::NAN, grad_norm: 1.0, hits };
        assert_eq!(code(&wrapped(poisoned), 130), NON_FINITE);
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let disk = TrainError::DiskFull { path: "run".into(), needed: 1, source: full() };
        assert_eq!(code(&wrapped(disk), 130), RESOURCES);
        let disk = DataError::Io { action: "write", path: "a.zip".into(), source: full() };
        assert_eq!(code(&disk.into(), 130), RESOURCES);
        let missing = DataError::Fetched("coco".into(), "1 of 4 files are not there".into());
        assert_eq!(code(&missing.into(), 130), DATA);
        let report: anyhow::Result<()> = Err(full()).context("report.md");
        assert_eq!(code(&report.unwrap_err(), 130), RESOURCES);
        let unpacking = ebm_data::Error::Io { action: "write", path: "a".into(), source: full() };
        assert_eq!(code(&unpacking.into(), 130), RESOURCES);
        let gpu = anyhow!("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")").context("training");
        assert_eq!(code(&gpu, 130), RESOURCES);
        assert_eq!(code(&anyhow!("anything"), 130), FAILURE);
    }

    #[test]
    fn what_the_tasks_pass_on_keeps_its_code() {
        let weights = || NnError::Format { path: "w".into(), reason: "cut".into() };
        let lost = || DataError::Io { action: "read", path: "a".into(), source: ErrorKind::NotFound.into() };
        let cut =
            || DataError::Io { action: "read", path: "a".into(), source: ErrorKind::UnexpectedEof.into() };
        let stopped = || TrainError::Interrupted { path: "run".into(), step: 3 };
        let setting = || ExperimentError::Config { name: "mini".into(), reason: "no".into() };
        macro_rules! of_tasks {
            ($($task:ident),+) => {
                $(for (error, wanted) in [
                    ($task::from(weights()), DATA),
                    (lost().into(), FAILURE),
                    (cut().into(), DATA),
                    (stopped().into(), 143),
                    (ExperimentError::from(stopped()).into(), 143),
                    (setting().into(), USAGE),
                    ($task::Weights { path: "w".into(), reason: "cut".into() }, DATA),
                ] {
                    assert_eq!(code(&error.into(), 143), wanted);
                })+
            };
        }
        of_tasks!(DetectError, FaceError, TrackError);
        let deep = TrainError::Task { step: 1, source: Box::new(ebm_detect::Error::from(weights())) };
        assert_eq!(code(&deep.into(), 130), DATA);
    }
}
