//! The log of a process: its format, its level, and the thread that writes it.

#[cfg(test)]
mod fields;
mod json;
mod one_line;
mod writer;

use std::io::IsTerminal;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;
use json::{FlatJson, JsonFields};
use writer::LogWriter;

/// The longest time for which the end of a process waits for its log to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Logs go to stderr; the level is RUST_LOG's. A log that can't be written (a full disk, a reader that
/// is gone) is lost, and nothing else is: by default the logger reports the failure on stderr, where
/// it panics, in whichever task wrote the line.
pub(super) fn log(format: LogFormat, default_level: &str) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_level));
    let lost: fn(u64) -> String = match format {
        LogFormat::Pretty => |lines| format!("WARN {lines} {LOST}\n"),
        LogFormat::Json => {
            |lines| format!("{{\"level\":\"WARN\",\"message\":\"{LOST}\",\"lines\":{lines}}}\n")
        }
    };
    let writer = LogWriter::start(std::io::stderr(), lost, crate::node_metrics());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(writer);
    match format {
        LogFormat::Pretty => log.fmt_fields(one_line::one_line()).init(),
        LogFormat::Json => log.fmt_fields(JsonFields).event_format(FlatJson).init(),
    }
}

/// The message of the line that counts lost lines.
const LOST: &str = "log lines were lost: the reader of the log is too slow";

/// Waits until everything that was logged is written, but not for long.
pub(super) fn flush() {
    writer::flush(FLUSH_TIMEOUT);
}
