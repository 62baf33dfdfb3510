//! What the exit code says; docs/reliability.md has the table.

use ebm_data::fetch::Error as FetchError;
use ebm_experiment::Error as ExperimentError;
use ebm_train::Error as TrainError;

use crate::commands::reproduce::outcome::Missed;

/// Something failed that has no code of its own.
const FAILURE: u8 = 1;
/// Data or a model's files are not what they should be.
const DATA: u8 = 3;
/// Losses or gradients were not finite too often.
const NON_FINITE: u8 = 4;
/// The figures are not those that the configuration expects, with `--check`.
const MISSED: u8 = 5;
/// The disk is full, or the memory, the GPU's too.
const RESOURCES: u8 = 6;

/// The code of an error; `interrupted` is that of the signal that arrived. Usage errors leave with 2 before this.
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

fn names_resources(cause: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull};
    // The driver's error reaches here as text only.
    if cause.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY") {
        return true;
    }
    let error = cause.downcast_ref::<std::io::Error>();
    error.is_some_and(|e| matches!(e.kind(), FileTooLarge | OutOfMemory | QuotaExceeded | StorageFull))
}

fn of_cause(cause: &(dyn std::error::Error + 'static), interrupted: u8) -> Option<u8> {
    let training = match cause.downcast_ref() {
        Some(ExperimentError::Train(error)) => Some(&**error),
        _ => cause.downcast_ref::<TrainError>(),
    };
    if let Some(error) = training {
        return match error {
            TrainError::Interrupted { .. } => Some(interrupted),
            TrainError::NonFinite { .. } | TrainError::NonFiniteTensor { .. } => Some(NON_FINITE),
            TrainError::DiskFull { .. } => Some(RESOURCES),
            TrainError::NoValidCheckpoint { .. }
            | TrainError::CorruptCheckpoint { .. }
            | TrainError::Json { .. }
            | TrainError::MetricsLine { .. }
            | TrainError::Schema { .. } => Some(DATA),
            _ => None,
        };
    }
    if let Some(error) = cause.downcast_ref::<FetchError>() {
        return match error {
            FetchError::DiskFull { .. } => Some(RESOURCES),
            FetchError::Manifest { .. }
            | FetchError::Incomplete { .. }
            | FetchError::Missing { .. }
            | FetchError::Size { .. }
            | FetchError::LongBody { .. }
            | FetchError::WrongHash { .. } => Some(DATA),
            _ => None,
        };
    }
    if cause.is::<Missed>() {
        return Some(MISSED);
    }
    let data = cause.is::<ebm_data::Error>() || cause.is::<ebm_eval::Error>();
    let weights = cause.downcast_ref::<ebm_nn::Error>();
    let weights = weights.is_some_and(|error| matches!(error, ebm_nn::Error::Format { .. }));
    (data || weights).then_some(DATA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

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
        let disk = FetchError::DiskFull { path: "a.zip".into(), needed: 2, free: Some(1) };
        assert_eq!(code(&disk.into(), 130), RESOURCES);
        let missing = FetchError::Missing { name: "coco".into(), missing: 1, total: 4 };
        assert_eq!(code(&missing.into(), 130), DATA);
        let report: anyhow::Result<()> = Err(full()).context("report.md");
        assert_eq!(code(&report.unwrap_err(), 130), RESOURCES);
        let unpacking = ebm_data::Error::Io { action: "write", path: "a".into(), source: full() };
        assert_eq!(code(&unpacking.into(), 130), RESOURCES);
        let gpu = anyhow!("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")").context("training");
        assert_eq!(code(&gpu, 130), RESOURCES);
        assert_eq!(code(&anyhow!("anything"), 130), FAILURE);
    }
}
