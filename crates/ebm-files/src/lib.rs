//! Files as others may have left them: opened, replaced, locked and removed within bounds.
//!
//! A path that a user or a shared disk supplies may name anything: a pipe that nobody writes to, a device
//! without an end, a link into somebody's home, a tree a hundred thousand folders deep. What is here deals
//! with regular files and folders and says of everything else what it is. Errors are those of the operating
//! system, or say in a sentence what is wrong; callers add the path.

mod lock;
mod open;
mod remove;
mod replace;

pub use lock::{Lock, LockError};
pub use open::{ReadError, open_input, open_own, read_limited};
pub use remove::remove_all;
pub use replace::{Durability, check_output, replace};

/// What a path names, for messages.
fn kind_of(kind: std::fs::FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        for (is, what) in [
            (kind.is_fifo(), "a named pipe"),
            (kind.is_char_device() || kind.is_block_device(), "a device"),
            (kind.is_socket(), "a socket"),
        ] {
            if is {
                return what;
            }
        }
    }
    match (kind.is_dir(), kind.is_symlink()) {
        (true, _) => "a folder",
        (_, true) => "a symbolic link",
        _ => "a special file",
    }
}

/// The refusal of a path for the reason `why`.
fn refused(why: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, why)
}

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
