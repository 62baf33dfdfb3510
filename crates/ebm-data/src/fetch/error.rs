//! What can go wrong between a publisher's server and a file in its place.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use ebm_files::ErrorKind;

use super::download::shown;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be fetched or verified. Each message names the file, what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What is no name of a model of the Hub.
    #[error(
        "{0:?} names no model of the Hub; write hub:OWNER/NAME or hub:OWNER/NAME@REVISION, and behind that /PATH of a file or folder in it"
    )]
    HubName(String),
    /// A manifest, a file, a folder or an answer is not what it should be.
    #[error("{}: {}", .0.display(), .1)]
    Wrong(PathBuf, String),
    /// Another process, of this number, fetches the same file.
    #[error("{}: process {} is fetching this file; wait until it has ended and run again", .0.display(), .1)]
    Locked(PathBuf, String),
    /// The server's answer is not the file.
    #[error("{}: {url} answers {status}: {}", path.display(), advice(*status, *wait))]
    Status {
        /// The file, or the model of the Hub.
        path: PathBuf,
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// Seconds that the server asks to wait.
        wait: Option<u64>,
    },
    /// No connection, or it broke.
    #[error("{}: {}; run again to go on from there", .0.display(), .1)]
    Network(PathBuf, String),
    /// The Hub, or the cache when nobody is asked, has no such model, file or folder.
    #[error("{0}: {1}")]
    NotThere(String, String),
    /// The operating system refused to read or write a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was attempted: "read", "write", …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// Whose matter it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::HubName(_) => ErrorKind::Usage,
            Self::Wrong(..) => ErrorKind::Data,
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Locked(..) | Self::Status { .. } | Self::Network(..) | Self::NotThere(..) => {
                ErrorKind::Failure
            }
        }
    }

    /// One of this `kind`, about what the address `url` has of the file `path`.
    pub(super) fn at(
        kind: fn(PathBuf, String) -> Self,
        path: &Path,
        url: &str,
        detail: impl Display,
    ) -> Self {
        kind(path.into(), format!("{}: {detail}", shown(url)))
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

fn advice(status: u16, wait: Option<u64>) -> String {
    match (status, wait) {
        (401 | 403, _) => "it is not for everybody; for a repository of the Hub accept its terms on its page, and set HF_TOKEN to a token that may read it".into(),
        (404 | 410, _) => "nothing of that name is there; see its page for how it is called now".into(),
        (_, Some(seconds)) => format!("it asks to wait {seconds} s; run again after that"),
        _ => "run again later, or see its page for another address".into(),
    }
}
