//! Lines on stdout and stderr that nobody has to read.
//!
//! The macros of the standard library panic where a line can't be printed, as in `tollgate … | head -n 1`. With these a
//! command does what it was asked for, also while nobody reads, and another failure, like a full disk, ends it with an
//! error in [`check`].

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

/// The first failure to print, other than of a closed pipe.
static FAILURE: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints on stdout, as `print!` does.
macro_rules! out {
    ($($text:tt)*) => { $crate::cli::output::print(format_args!($($text)*)) };
}

/// Prints a line on stdout, as `println!` does.
macro_rules! outln {
    ($($text:tt)*) => { $crate::cli::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints on stderr, as `eprint!` does.
macro_rules! err {
    ($($text:tt)*) => { $crate::cli::output::print_error(format_args!($($text)*)) };
}

/// Prints a line on stderr, as `eprintln!` does.
macro_rules! errln {
    () => { $crate::cli::output::print_error(format_args!("\n")) };
    ($($text:tt)*) => {
        $crate::cli::output::print_error(format_args!("{}\n", format_args!($($text)*)))
    };
}

pub(super) use {err, errln, out, outln};

/// Prints on stdout. A failure is kept for [`check`].
pub(super) fn print(text: Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        keep(error);
    }
}

/// Keeps a failure to print for [`check`]. A reader that has gone misses nothing.
pub(super) fn keep(error: io::Error) {
    if error.kind() != ErrorKind::BrokenPipe
        && let Ok(mut failure) = FAILURE.lock()
    {
        failure.get_or_insert(error);
    }
}

/// Prints on stderr. A failure could be reported nowhere.
pub(super) fn print_error(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Fails if something could not be printed on stdout though somebody reads it.
pub(super) fn check() -> io::Result<()> {
    match FAILURE.lock().ok().and_then(|mut failure| failure.take()) {
        Some(error) => Err(io::Error::new(error.kind(), format!("standard output: {error}"))),
        None => Ok(()),
    }
}
