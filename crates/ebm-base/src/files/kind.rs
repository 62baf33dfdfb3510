use std::io;

/// Kind of an error, by its cause. Every error of the crates above has a kind, and `ebm` exits with the code of
/// that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// An invalid command line or setting: 2.
    Usage,
    /// Invalid data, annotations, weights or checkpoints: 3.
    Data,
    /// Too many losses or gradients that are not finite: 4.
    NonFinite,
    /// A full disk or memory: 6.
    Resources,
    /// A request to stop, which was followed: 128 and the signal's number.
    Interrupted,
    /// Any other error, or the kind of the error's source: 1.
    Failure,
}

impl ErrorKind {
    /// Returns the kind of an error of the operating system. A missing file is a [`Failure`](Self::Failure).
    pub fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind as Io;
        match error.kind() {
            // Starting a thread fails with `WouldBlock` if there is no memory for its stack.
            Io::FileTooLarge | Io::OutOfMemory | Io::QuotaExceeded | Io::StorageFull | Io::WouldBlock => {
                Self::Resources
            }
            Io::InvalidData | Io::UnexpectedEof => Self::Data,
            _ => Self::Failure,
        }
    }
}
