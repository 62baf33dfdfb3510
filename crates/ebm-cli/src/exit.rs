//! Exit codes of the program; docs/exit_codes.md has the table.

use std::error::Error as StdError;

use ebm_base::files::ErrorKind;
use ebm_eval::Comparison;

/// Exit code with `--check` if figures differ from the configuration's expected ones.
const MISSED: u8 = 5;
/// Exit code if the disk, the memory or the GPU's memory is full.
pub const RESOURCES: u8 = 6;

/// Returns the exit code of an error. `interrupted` is the code for the signal that arrived. clap exits earlier when it
/// cannot parse the command line.
pub fn code(error: &anyhow::Error, interrupted: u8) -> u8 {
    // A full disk takes precedence over the error that it caused.
    if is_of_resources(error) {
        return RESOURCES;
    }
    if error.chain().any(|cause| cause.is::<Comparison>()) {
        return MISSED;
    }
    match error.chain().map(kind).find(|kind| *kind != ErrorKind::Failure) {
        Some(ErrorKind::Usage) => 2,
        Some(ErrorKind::Data) => 3,
        Some(ErrorKind::NonFinite) => 4,
        Some(ErrorKind::Resources) => RESOURCES,
        Some(ErrorKind::Interrupted) => interrupted,
        Some(ErrorKind::Failure) | None => 1,
    }
}

/// Returns `true` if the error comes from a full disk, full memory or a GPU's full memory.
pub fn is_of_resources(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| kind(cause) == ErrorKind::Resources)
}

fn kind(cause: &(dyn StdError + 'static)) -> ErrorKind {
    // The CUDA driver's error arrives here only as text.
    if cause.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY") {
        return ErrorKind::Resources;
    }
    macro_rules! of_crates {
        ($($krate:path),+) => {
            $(if let Some(error) = cause.downcast_ref::<$krate>() {
                return error.kind();
            })+
        };
    }
    // The crates above ebm-experiment use its error type.
    of_crates!(ebm_experiment::Error, ebm_train::Error, ebm_eval::Error, ebm_data::Error, ebm_nn::Error);
    if let Some(error) = cause.downcast_ref() {
        return ErrorKind::of_io(error);
    }
    let json = cause.downcast_ref::<serde_json::Error>().is_some_and(|error| !error.is_io());
    let csv = cause.downcast_ref::<csv::Error>().is_some_and(|error| !error.is_io_error());
    if json || csv || cause.is::<toml::de::Error>() { ErrorKind::Data } else { ErrorKind::Failure }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind as Io;

    use anyhow::{Context, anyhow};
    use ebm_data::Error as DataError;
    use ebm_experiment::Error as ExperimentError;
    use ebm_nn::Error as NnError;
    use ebm_train::Error as TrainError;

    use super::*;

    #[test]
    fn a_cause_anywhere_in_the_chain_decides() {
        let wrapped = |error: TrainError| anyhow::Error::new(error).context("while training");
        let interrupted = || TrainError::Interrupted { path: "run".into(), step: 3 };
        assert_eq!(code(&wrapped(interrupted()), 143), 143);
        assert_eq!(code(&ExperimentError::from(interrupted()).into(), 143), 143);
        let poisoned = TrainError::NonFinite(3, "the loss".into());
        assert_eq!(code(&wrapped(poisoned), 130), 4);
        let full = || std::io::Error::from(Io::StorageFull);
        let disk = TrainError::DiskFull { path: "run".into(), needed: 1, source: full() };
        assert_eq!(code(&wrapped(disk), 130), RESOURCES);
        let missing = DataError::Data("coco".into(), "1 of 4 files are not there".into());
        assert_eq!(code(&missing.into(), 130), 3);
        let report: anyhow::Result<()> = Err(full()).context("report.md");
        assert_eq!(code(&report.unwrap_err(), 130), RESOURCES);
        let writing = DataError::Io { action: "write", path: "a".into(), source: full() };
        assert_eq!(code(&writing.into(), 130), RESOURCES);
        let gpu = anyhow!("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")").context("training");
        assert_eq!(code(&gpu, 130), RESOURCES);
        assert_eq!(code(&anyhow!("anything"), 130), 1);
    }

    #[test]
    fn what_the_tasks_pass_on_keeps_its_code() {
        let weights = || NnError::Format { path: "w".into(), reason: "cut".into() };
        let read = |kind: Io| DataError::Io { action: "read", path: "a".into(), source: kind.into() };
        for (error, wanted) in [
            (ExperimentError::from(weights()), 3),
            (read(Io::NotFound).into(), 1),
            (read(Io::UnexpectedEof).into(), 3),
            (read(Io::QuotaExceeded).into(), RESOURCES),
            (ExperimentError::config("mini", "no"), 2),
            (ExperimentError::weights("w", "cut"), 3),
            (ExperimentError::Validation(Box::new(ExperimentError::from(weights()))), 3),
            (TrainError::Task { step: 1, source: Box::new(ExperimentError::from(weights())) }.into(), 3),
            (ExperimentError::NonFinite("the loss".into()), 4),
            (ebm_core::Error::NonFiniteScore { x: 0, y: vec![1.0], value: f64::NAN }.into(), 3),
        ] {
            let said = error.to_string();
            assert_eq!(code(&error.into(), 130), wanted, "{said}");
        }
    }
}
