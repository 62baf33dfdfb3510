use std::io;

/// Whose matter an error is. Every error of the crates above has one, and `ebm` an exit code for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A command line or a setting that was not understood: 2.
    Usage,
    /// Data, annotations, weights or checkpoints that are not what they should be: 3.
    Data,
    /// Losses or gradients that were not finite too often: 4.
    NonFinite,
    /// A full disk or memory: 6.
    Resources,
    /// A request to stop that was followed: 128 and the signal's number.
    Interrupted,
    /// Anything else, or what the error's source says: 1.
    Failure,
}

impl ErrorKind {
    /// The kind of an answer of the operating system. A file that is not there is nobody's data.
    pub fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind as Io;
        match error.kind() {
            // A thread that has no memory for its stack would block.
            Io::FileTooLarge | Io::OutOfMemory | Io::QuotaExceeded | Io::StorageFull | Io::WouldBlock => {
                Self::Resources
            }
            Io::InvalidData | Io::UnexpectedEof => Self::Data,
            _ => Self::Failure,
        }
    }
}
