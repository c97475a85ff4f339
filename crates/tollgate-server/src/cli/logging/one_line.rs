//! Writes the fields of a log line for people: one event is one line, whatever it says.
//!
//! Field values hold texts of callers and chain nodes. A line break or terminal code in one of them
//! could forge another line, such as an alert.

use std::fmt::Debug;

use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::cli::table::changes_display;

/// Writes the message and `name=value` pairs, with control characters escaped.
pub(in crate::cli) fn one_line() -> impl for<'writer> FormatFields<'writer> {
    let write = |to: &mut Writer<'_>, field: &Field, value: &dyn Debug| match field.name() {
        "message" => escaped(to, &format!("{value:?}")),
        name => {
            write!(to, "{name}=")?;
            escaped(to, &format!("{value:?}"))
        }
    };
    debug_fn(write).delimited(" ")
}

fn escaped(to: &mut Writer<'_>, text: &str) -> std::fmt::Result {
    text.chars().try_for_each(|c| match changes_display(c) {
        true => write!(to, "{}", c.escape_default()),
        false => to.write_char(c),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn log_event_with_control_characters_is_written_as_one_line() {
        let written = Written::default();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(written.clone());
        let log = log.without_time().fmt_fields(one_line()).finish();
        let reason =
            "ok\n2026-11-17T03:14:00Z  WARN tollgate::alert: alert \u{1b}[31m\u{7}\u{2028}\u{202e}";
        tracing::subscriber::with_default(log, || {
            let _span = tracing::info_span!("request", trace_id = %reason).entered();
            tracing::info!(%reason, quoted = reason, count = 3, "status of {reason}");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let line = text.strip_suffix('\n').unwrap();
        assert!(!line.contains(changes_display), "{line:?}");
        assert!(line.contains(r"reason=ok\n2026") && line.contains("count=3"), "{line}");
    }
}
