//! What can go wrong between a publisher's server and a file in its place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::shown;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be fetched or verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A manifest is not what it should be.
    #[error("{}: {detail}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Where, what is wrong, and what would be right.
        detail: String,
    },
    /// A folder is there, but not what belongs into it.
    #[error("{}: {detail}", path.display())]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// What is wrong and what to do.
        detail: String,
    },
    /// Files of a manifest are not there.
    #[error("{name}: {missing} of {total} files are not there: see the list above")]
    Missing {
        /// The manifest.
        name: String,
        /// Files that are not there.
        missing: usize,
        /// Files in all.
        total: usize,
    },
    /// No manifest has this name.
    #[error("there is no manifest {name}; there are {}", known.join(", "))]
    UnknownName {
        /// The name.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// Another process fetches the same file.
    #[error("{}: process {holder} is fetching this file; wait until it has ended and run again", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The other process' id, or "unknown".
        holder: String,
    },
    /// An address that is neither https nor on this machine.
    #[error("{}: {url_} is refused{}: only https, or http on this machine; fetch the file by hand if you trust it", path.display(), redirected(from), url_ = shown(url))]
    Insecure {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// The address that redirected there, if any.
        from: Option<String>,
    },
    /// The server's answer is not the file.
    #[error("{}: {url_} answers {status}; see the dataset's page for another address", path.display(), url_ = shown(url))]
    Status {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The server asks to come back later than we wait.
    #[error("{}: {url_} answers {status} and asks to wait {} s; run again after that", path.display(), wait.as_secs(), url_ = shown(url))]
    RetryLater {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The time that the server asks for.
        wait: Duration,
    },
    /// A token that no request can carry.
    #[error("{}: the token for it, in HF_TOKEN or where a login has written it, holds a line break or another character that is none of a token's; set it again", path.display())]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// What is no name of a model of the Hub.
    #[error(
        "{name:?} names no model of the Hub; write hub:OWNER/NAME or hub:OWNER/NAME@REVISION, and behind that /PATH of a file or folder in it"
    )]
    HubName {
        /// What was given.
        name: String,
    },
    /// The Hub gives or takes nothing of a repository.
    #[error("{model}: {url_} answers {status}: {}{said_}", advice(*status), url_ = shown(url), said_ = quoted(said))]
    Refused {
        /// The repository and its revision.
        model: String,
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What the Hub says about it; empty where it says nothing.
        said: String,
    },
    /// Nothing is sent without a token.
    #[error("{model}: nothing is sent without a token that may write: set HF_TOKEN to one")]
    NoToken {
        /// The repository and its revision.
        model: String,
    },
    /// A file that no model may have.
    #[error("{}: it would be {name:?} in the repository, and only .safetensors, .toml, .json and .md are sent, with plain names; `ebm weights convert` or `pack` makes a .safetensors file", path.display())]
    NotSent {
        /// The file.
        path: PathBuf,
        /// What it would be called.
        name: String,
    },
    /// Nobody is asked, and the cache has no such file.
    #[error("{model}: offline there is no {}; unset HF_HUB_OFFLINE and run again", sought.display())]
    NotCached {
        /// The repository and its revision.
        model: String,
        /// What was looked for.
        sought: PathBuf,
    },
    /// A repository has no such file or folder.
    #[error(
        "{model}: the repository has no such file or folder of a model: only .safetensors, .toml, .json and .md are taken"
    )]
    NotInModel {
        /// What was looked for.
        model: String,
    },
    /// No connection, or it broke.
    #[error("{}: {url_}: {detail}", path.display(), url_ = shown(url))]
    Network {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// The network's complaint.
        detail: String,
    },
    /// The server's answer contradicts HTTP or itself.
    #[error("{}: {url_}: {detail}", path.display(), url_ = shown(url))]
    Protocol {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// What is wrong.
        detail: String,
    },
    /// Nothing, or next to nothing, came for too long.
    #[error("{}: {url_} stalled at byte {received}: less than {least} bytes in {} ms", path.display(), window.as_millis(), url_ = shown(url))]
    Stalled {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// Bytes of the file that are here.
        received: u64,
        /// Bytes expected in the window.
        least: u64,
        /// The window.
        window: Duration,
    },
    /// The connection ended before the file did.
    #[error("{}: {url_} ended at byte {actual} of {expected}", path.display(), url_ = shown(url))]
    ShortBody {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// Bytes promised.
        expected: u64,
        /// Bytes that are here.
        actual: u64,
    },
    /// More came than was promised.
    #[error("{}: {url_} sent more than the {expected} bytes that were promised; the manifest or the server is wrong", path.display(), url_ = shown(url))]
    LongBody {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// Bytes promised.
        expected: u64,
    },
    /// More came, or is to come, than is fetched where the manifest states no size.
    #[error("{}: {url_} sends more than {limit} bytes, and the manifest states no size; put `size` into it if that is right", path.display(), url_ = shown(url))]
    Unbounded {
        /// The file.
        path: PathBuf,
        /// The address.
        url: String,
        /// The most bytes of such a file.
        limit: u64,
    },
    /// The server, or a file, has another size than the manifest or the Hub states.
    #[error("{}: {origin_} has {actual} bytes where {expected} are stated; fetch the file that is meant, or mend the manifest that states it", path.display(), origin_ = shown(origin))]
    Size {
        /// The file.
        path: PathBuf,
        /// The address, or "the file".
        origin: String,
        /// The size that is stated.
        expected: u64,
        /// The size found.
        actual: u64,
    },
    /// The content is not what was published, or not what was fetched first.
    #[error("{}: {origin_} has SHA-256 {actual} where {expected} is expected; {remedy}", path.display(), origin_ = shown(origin))]
    WrongHash {
        /// The file.
        path: PathBuf,
        /// The address, or "the file".
        origin: String,
        /// The manifest's hash, its beginning, or the one recorded at the first download.
        expected: String,
        /// The hash found.
        actual: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The same failure came up in every attempt.
    #[error("{last}; {attempts} attempts without progress; run again to go on from there")]
    GaveUp {
        /// Attempts.
        attempts: u32,
        /// The last failure.
        last: Box<Error>,
    },
    /// The file does not fit on the disk.
    #[error("{}: {}; free some space and run again to go on from there", path.display(), shortage(*needed, *free))]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes free, where the system tells.
        free: Option<u64>,
    },
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
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether another address for the same file may do better.
    pub(super) fn is_of_the_address(&self) -> bool {
        match self {
            Self::GaveUp { last, .. } => last.is_of_the_address(),
            Self::Manifest { .. }
            | Self::Incomplete { .. }
            | Self::Missing { .. }
            | Self::UnknownName { .. }
            | Self::Locked { .. }
            | Self::DiskFull { .. }
            | Self::Io { .. } => false,
            _ => true,
        }
    }
}

fn redirected(from: &Option<String>) -> String {
    from.as_ref().map(|from| format!(" (redirected from {})", shown(from))).unwrap_or_default()
}

/// How much is missing; a quota or a limit on the size of files may end a download on a disk with space.
fn shortage(needed: u64, free: Option<u64>) -> String {
    match free {
        Some(free) if free < needed => format!("{needed} bytes are needed and {free} are free"),
        _ => "no more can be written: the disk, a quota or the largest size of a file is reached".into(),
    }
}

/// What to do about an answer of the Hub.
fn advice(status: u16) -> &'static str {
    match status {
        401 => {
            "there is no such repository, or it is not for everybody; for one of yours set HF_TOKEN to a token that may do this"
        }
        403 => {
            "the token in HF_TOKEN may not do this, or the repository's terms have to be accepted on its page"
        }
        404 => "there is no such repository or revision; see its page for how it is called",
        _ => "nothing was changed; run again, or see its page",
    }
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" (it says {said:?})") }
}
