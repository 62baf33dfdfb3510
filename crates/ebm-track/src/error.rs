use std::path::PathBuf;

/// What can go wrong in the tracker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// A layer or an operation of `ebm-nn` refused.
    #[error(transparent)]
    Nn(#[from] ebm_nn::Error),
    /// An objective, density or refinement of `ebm-core` refused.
    #[error(transparent)]
    Core(#[from] ebm_core::Error),
    /// A dataset or an image of `ebm-data` refused.
    #[error(transparent)]
    Data(#[from] ebm_data::Error),
    /// A metric of `ebm-eval` refused.
    #[error(transparent)]
    Eval(#[from] ebm_eval::Error),
    /// A training failed.
    #[error(transparent)]
    Train(#[from] ebm_train::Error),
    /// The settings or the run of an experiment.
    #[error(transparent)]
    Experiment(#[from] ebm_experiment::Error),
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A target that can not be tracked.
    #[error("the box {bbox:?} (x, y, width, height) in an image of {width}x{height} pixels: {reason}")]
    Target {
        /// The box.
        bbox: ebm_data::sequences::Rect,
        /// The image's columns.
        width: usize,
        /// The image's rows.
        height: usize,
        /// What is wrong.
        reason: String,
    },
    /// A frame of another size than the first.
    #[error(
        "frame {frame} (the first is 0) has {found:?} rows and columns where the video began with {expected:?}; a video has one size"
    )]
    FrameSize {
        /// Its number.
        frame: usize,
        /// (rows, columns) of the first frame.
        expected: [usize; 2],
        /// (rows, columns) of this one.
        found: [usize; 2],
    },
    /// A sequence that can not be tracked to its end.
    #[error("sequence {name}, frame {frame} ({}): {reason}", path.display())]
    Sequence {
        /// Its name.
        name: String,
        /// The frame, counted from 0.
        frame: usize,
        /// The frame's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A configuration that can not be used.
    #[error("configuration {name}: {reason}")]
    Settings {
        /// The file or the embedded name.
        name: String,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// A configuration that no network can be made of.
    #[error("configuration of the {part}: {reason}")]
    Config {
        /// Which part of the network.
        part: &'static str,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// A weight file does not hold the network that is asked for.
    #[error("{}: {reason}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What differs and what to do.
        reason: String,
    },
}

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;
