//! Output of the program. Results go through this crate's `println!` and `print!`, everything else through its
//! `eprintln!`. The standard library's macros panic when the output is closed.
//!
//! When the reader of the results closes the pipe, the program ends quietly, like any program in a shell's pipeline.
//! When standard error is closed or full, the work continues in silence. Control characters, for instance in file
//! names, are escaped before they reach a terminal.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Exit code that a shell reports for a program ended by a closed pipe: 128 plus the number of SIGPIPE.
const CLOSED_PIPE: i32 = 141;

/// Writes to standard output. Ends the process if nobody reads it or it cannot be written.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_all(plain(&text.to_string()).as_bytes()).and_then(|()| out.flush()) else {
        return;
    };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(CLOSED_PIPE);
    }
    let error = anyhow::Error::new(error).context("cannot write to standard output");
    say(format_args!("error: {error:#}\n"));
    std::process::exit(i32::from(crate::exit::code(&error, 1)));
}

/// Writes to standard error in one piece, since other processes may write to it too. Failures are ignored.
pub fn say(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_all(plain(&text.to_string()).as_bytes());
}

/// Returns the text with its control characters escaped, except line ends and tabs.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => plain.push(c),
            c if c.is_control() => plain.extend(c.escape_default()),
            c => plain.push(c),
        }
    }
    plain
}

macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! eprintln {
    () => { $crate::output::say(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::say(format_args!("{}\n", format_args!($($text)*))) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_moves_no_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\r\tc\u{9b}\nü"), "a\\u{1b}[2Jb\\r\tc\\u{9b}\nü");
    }
}
