//! Results on standard output: `println!` and `print!` of this crate. A reader that has seen enough closes the pipe, and that
//! ends the program quietly, as it ends any program of a shell's pipeline; the standard library's macros panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// What a shell reports of a program that a closed pipe ended: 128 and the number of SIGPIPE.
const CLOSED_PIPE: i32 = 141;

/// Writes to standard output, or ends the process where nobody reads it or it cannot be written.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(CLOSED_PIPE);
    }
    let error = anyhow::Error::new(error).context("cannot write to standard output");
    eprintln!("error: {error:#}");
    std::process::exit(i32::from(crate::exit::code(&error, 1)));
}

macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}
